/* Preloaded into perftest in the guest of tests/rdma/guest-run: gettimeofday() from the processor's counter. perftest
 * finds out what a tick of that counter is by comparing it with gettimeofday(), which in user-mode Linux takes as long
 * as what is measured. */
#include <stdint.h>
#include <sys/time.h>
#include <time.h>
#include <x86intrin.h>

static double ticks_per_us;

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

__attribute__((constructor)) static void calibrate(void) {
  const double kLong = 100e3;
  double start = now_us();
  uint64_t first = __rdtsc();
  while (now_us() - start < kLong) {
  }
  ticks_per_us = (double)(__rdtsc() - first) / (now_us() - start);
}

int gettimeofday(struct timeval* time, void* zone) {
  (void)zone;
  uint64_t us = (uint64_t)((double)__rdtsc() / ticks_per_us);
  time->tv_sec = (time_t)(us / 1000000);
  time->tv_usec = (suseconds_t)(us % 1000000);
  return 0;
}
