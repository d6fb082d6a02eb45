/* Rank 1 enters the second all_reduce late: wait_for_late_rank MILLISECONDS. Every other rank prints the microseconds
 * of wall time and of this process's CPU time that the call took. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/tutti.h>

#include "measured_rank.h"

static int64_t wall_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int main(int argc, char** argv) {
  int milliseconds = argc > 1 ? atoi(argv[1]) : 1000;
  tutti_comm_t* comm = NULL;
  int rank = 0;
  float value = 1;
  check(tutti_comm_init_from_environment(&comm, NULL), NULL);
  tutti_comm_rank(comm, &rank);
  check(tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), comm);
  if (rank == 1) {
    struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&time, NULL);
  }
  int64_t wall = wall_us(), cpu = cpu_us();
  check(tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), comm);
  wall = wall_us() - wall;
  cpu = cpu_us() - cpu;
  if (rank != 1) printf("%lld %lld\n", (long long)wall, (long long)cpu);
  check(tutti_comm_destroy(comm), NULL);
  return 0;
}
