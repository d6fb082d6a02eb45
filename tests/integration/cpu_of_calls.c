/* A rank that makes CALLS small all_reduces, and prints the microseconds of CPU time that this process spent on them:
 * cpu_of_calls CALLS. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <tutti/tutti.h>

static int64_t cpu_us(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
         usage.ru_stime.tv_usec;
}

static void check(tutti_status_t status, tutti_comm_t* comm) {
  if (status == TUTTI_SUCCESS) return;
  fprintf(stderr, "%s\n", tutti_last_error(comm));
  exit(2);
}

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
