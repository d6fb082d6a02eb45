/* tutti under `tutti run`. */
#include <stdio.h>
#include <stdlib.h>

#include "loop.h"
#include "tutti/tutti.h"

static void require(tutti_status_t status, const tutti_comm_t* comm) {
  if (status == TUTTI_SUCCESS) return;
  fprintf(stderr, "tutti: %s\n", tutti_last_error(comm));
  exit(1);
}

static void all_reduce(void* state, const float* in, float* out, size_t count) {
  tutti_comm_t* comm = state;
  require(tutti_all_reduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), comm);
}

int main(int argc, char** argv) {
  tutti_comm_t* comm = NULL;
  require(tutti_comm_init_from_environment(&comm, NULL), NULL);
  struct peer peer = {0, 0, comm, all_reduce};
  require(tutti_comm_rank(comm, &peer.rank), comm);
  require(tutti_comm_size(comm, &peer.size), comm);
  int status = run_loop(&peer, argc, argv);
  require(tutti_comm_destroy(comm), NULL);
  return status;
}
