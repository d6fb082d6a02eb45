// What MPI makes of a call.
#pragma once

#include "local_call.h"

namespace differential {

// Runs the collective of MPI on copies and fills in what the call must leave in its buffers. Blocks: every rank calls it.
void ask_mpi(LocalCall& local, const Job& job);

// Whether the all_reduces of all ranks have the same bits: what is in this rank's receive buffer against rank 0's. Every
// rank calls it.
bool has_bits_of_rank_0(LocalCall& local, const Job& job);

// Whether no rank left the barrier before the last one entered it. Every rank calls it; the ranks are on one host.
bool waited_for_all(const LocalCall& local);

}  // namespace differential
