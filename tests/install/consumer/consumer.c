/* Joins the communicator that its launcher started (one rank without a launcher) and sums one number over all ranks. */
#include <stdio.h>
#include <tutti/tutti.h>

int main(void) {
  tutti_comm_t* comm = NULL;
  int rank = -1, size = -1;
  float sum = 1;
  if (tutti_comm_init_from_environment(&comm, NULL) != TUTTI_SUCCESS) {
    fprintf(stderr, "%s\n", tutti_last_error(NULL));
    return 1;
  }
  tutti_comm_rank(comm, &rank);
  tutti_comm_size(comm, &size);
  if (tutti_all_reduce(&sum, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL) != TUTTI_SUCCESS) {
    fprintf(stderr, "%s\n", tutti_last_error(comm));
    return 1;
  }
  printf("rank %d of %d: %g\n", rank, size, (double)sum);
  return tutti_comm_destroy(comm) == TUTTI_SUCCESS && sum == (float)size ? 0 : 1;
}
