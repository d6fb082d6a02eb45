/* A rank that makes CALLS small all_reduces, and prints the microseconds of CPU time that this process spent on them:
 * cpu_of_calls CALLS. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

#include "measured_rank.h"

int main(int argc, char** argv) {
  int calls = argc > 1 ? atoi(argv[1]) : 100;
  tutti_comm_t* comm = NULL;
  float value = 0;
  check(tutti_comm_init_from_environment(&comm, NULL), NULL);
  check(tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), comm); /* connects */
  int64_t cpu = cpu_us();
  for (int i = 0; i < calls; ++i) {
    check(tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), comm);
  }
  printf("%lld\n", (long long)(cpu_us() - cpu));
  check(tutti_comm_destroy(comm), NULL);
  return 0;
}
