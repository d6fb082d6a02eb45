/* Any MPI under its own launcher. Errors end the job: MPI's default. */
#include <mpi.h>

#include "loop.h"

static void all_reduce(const struct peer* peer, const float* in, float* out, size_t count) {
  (void)peer;
  MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(const struct peer* peer, const float* in, float* out, size_t count) {
  (void)peer;
  MPI_Reduce_scatter_block(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_gather(const struct peer* peer, const float* in, float* out, size_t count) {
  (void)peer;
  MPI_Allgather(in, (int)count, MPI_FLOAT, out, (int)count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void broadcast(const struct peer* peer, const float* in, float* out, size_t count) {
  MPI_Bcast(peer->rank == 0 ? (float*)in : out, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void all_to_all(const struct peer* peer, const float* in, float* out, size_t count) {
  (void)peer;
  MPI_Alltoall(in, (int)count, MPI_FLOAT, out, (int)count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void send_recv(const struct peer* peer, const float* in, float* out, size_t count) {
  int other = 1 - peer->rank;
  if (peer->rank == 0) MPI_Send(in, (int)count, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
  MPI_Recv(out, (int)count, MPI_FLOAT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (peer->rank == 1) MPI_Send(in, (int)count, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  struct peer peer = {.calls = {[kAllReduce] = all_reduce,
                                [kReduceScatter] = reduce_scatter,
                                [kAllGather] = all_gather,
                                [kBroadcast] = broadcast,
                                [kAllToAll] = all_to_all,
                                [kSendRecv] = send_recv}};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peer.size);
  int status = run_loop(&peer, argc, argv);
  MPI_Finalize();
  return status;
}
