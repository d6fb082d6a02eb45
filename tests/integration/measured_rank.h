/* What programs that measure their own processor time share. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <tutti/tutti.h>

/* Microseconds of CPU time of this process, all its threads together. */
static inline int64_t cpu_us(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
         usage.ru_stime.tv_usec;
}

/* Ends the process with the sentence of a failed call. */
static inline void check(tutti_status_t status, const tutti_comm_t* comm) {
  if (status == TUTTI_SUCCESS) return;
  fprintf(stderr, "%s\n", tutti_last_error(comm));
  exit(2);
}
