// The collectives of MPI by the number of tutti's.
#pragma once

#include "call.h"
#include "layout.h"

namespace differential {

// `send` and `recv` are laid out as the layout says, of elements of `type`, and do not overlap. Blocks.
void run_mpi(const Call& call, const Layout& layout, const Job& job, const void* send, void* recv, MPI_Datatype type,
             MPI_Op op);

}  // namespace differential
