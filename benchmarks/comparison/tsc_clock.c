/* Preloaded into perftest and tutti in the guest of tests/rdma/guest-run: clocks from the processor's counter. In
 * user-mode Linux a look at a clock is a system call, which takes as long as what is measured; elsewhere it is none.
 * perftest finds out what a tick of the counter is by comparing it with gettimeofday(), and then reads the counter. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

static double ticks_per_us;
static double start_us;
static uint64_t start_ticks;

static double now_us(void) {
  struct timespec now;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

__attribute__((constructor)) static void calibrate(void) {
  const double kLong = 100e3;
  double start = now_us();
  uint64_t first = __rdtsc();
  while (now_us() - start < kLong) {
  }
  start_us = now_us();
  start_ticks = __rdtsc();
  ticks_per_us = (double)(start_ticks - first) / (start_us - start);
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  if (clock != CLOCK_MONOTONIC || ticks_per_us == 0) return (int)syscall(SYS_clock_gettime, clock, time);
  double us = start_us + (double)(__rdtsc() - start_ticks) / ticks_per_us;
  time->tv_sec = (time_t)(us / 1e6);
  time->tv_nsec = (long)((us - (double)time->tv_sec * 1e6) * 1e3);
  return 0;
}

int gettimeofday(struct timeval* time, void* zone) {
  (void)zone;
  uint64_t us = (uint64_t)((double)__rdtsc() / ticks_per_us);
  time->tv_sec = (time_t)(us / 1000000);
  time->tv_usec = (suseconds_t)(us % 1000000);
  return 0;
}
