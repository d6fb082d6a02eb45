#include "mpi_collective.h"

#include <cstring>
#include <vector>

namespace differential {
namespace {

std::vector<int> ints(const std::vector<uint64_t>& numbers) { return {numbers.begin(), numbers.end()}; }

// The blocks of one buffer in MPI's types.
struct MpiBlocks {
  explicit MpiBlocks(const Blocks& blocks) : counts(ints(blocks.counts)), displacements(ints(blocks.displacements)) {}

  int first() const { return counts.empty() ? 0 : counts.front(); }

  std::vector<int> counts;
  std::vector<int> displacements;
};

void broadcast(const Call& call, const Job& job, const void* send, void* recv, MPI_Datatype type) {
  auto count = static_cast<int>(call.count);
  int size = 0;
  MPI_Type_size(type, &size);
  if (job.rank == call.root && count > 0) std::memcpy(recv, send, call.count * static_cast<size_t>(size));
  MPI_Bcast(recv, count, type, call.root, job.mpi);
}

}  // namespace

void run_mpi(const Call& call, const Layout& layout, const Job& job, const void* send, void* recv, MPI_Datatype type,
             MPI_Op op) {
  MPI_Comm comm = job.mpi;
  auto count = static_cast<int>(call.count);
  MpiBlocks in(layout.send), out(layout.recv);
  switch (call.collective->id) {
    case TUTTI_ALL_REDUCE: MPI_Allreduce(send, recv, count, type, op, comm); break;
    case TUTTI_REDUCE: MPI_Reduce(send, recv, count, type, op, call.root, comm); break;
    case TUTTI_BROADCAST: broadcast(call, job, send, recv, type); break;
    case TUTTI_ALL_GATHER: MPI_Allgather(send, count, type, recv, count, type, comm); break;
    case TUTTI_REDUCE_SCATTER: MPI_Reduce_scatter_block(send, recv, count, type, op, comm); break;
    case TUTTI_ALL_TO_ALL: MPI_Alltoall(send, count, type, recv, count, type, comm); break;
    case TUTTI_GATHER: MPI_Gather(send, count, type, recv, count, type, call.root, comm); break;
    case TUTTI_SCATTER: MPI_Scatter(send, count, type, recv, count, type, call.root, comm); break;
    case TUTTI_BARRIER: MPI_Barrier(comm); break;
    case TUTTI_ALL_GATHER_V:
      MPI_Allgatherv(send, in.first(), type, recv, out.counts.data(), out.displacements.data(), type, comm);
      break;
    case TUTTI_REDUCE_SCATTER_V: MPI_Reduce_scatter(send, recv, in.counts.data(), type, op, comm); break;
    case TUTTI_ALL_TO_ALL_V:
      MPI_Alltoallv(send, in.counts.data(), in.displacements.data(), type, recv, out.counts.data(),
                    out.displacements.data(), type, comm);
      break;
    case TUTTI_GATHER_V:
      MPI_Gatherv(send, in.first(), type, recv, out.counts.data(), out.displacements.data(), type, call.root, comm);
      break;
    case TUTTI_SCATTER_V:
      MPI_Scatterv(send, in.counts.data(), in.displacements.data(), type, recv, out.first(), type, call.root, comm);
      break;
    case TUTTI_SEND:
    case TUTTI_RECV: break;
  }
}

}  // namespace differential
