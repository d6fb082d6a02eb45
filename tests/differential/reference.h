// What MPI makes of a call.
#pragma once

#include "local_call.h"

namespace differential {

// Runs the collective of MPI on copies and fills in what the call must leave in its buffers. Every rank calls it.
void ask_mpi(LocalCall& local, const Job& job);

// Whether this rank's result of an all_reduce has the same bits as rank 0's. Every rank calls it.
bool has_bits_of_rank_0(LocalCall& local, const Job& job);

// Whether no rank left the barrier before the last one entered it. Every rank calls it; the ranks are on one host.
bool waited_for_all(const LocalCall& local);

}  // namespace differential
