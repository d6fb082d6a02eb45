/* Any MPI under its own launcher. Errors end the job: MPI's default. */
#include <mpi.h>

#include "loop.h"

static void all_reduce(void* state, const float* in, float* out, size_t count) {
  (void)state;
  MPI_Allreduce(in, out, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  struct peer peer = {0, 0, 0, all_reduce};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &peer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &peer.size);
  int status = run_loop(&peer, argc, argv);
  MPI_Finalize();
  return status;
}
