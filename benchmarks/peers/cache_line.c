// How long a cache line takes from one core to another: two threads, each on a core of its own, hand one line to and
// fro. Prints the median over bursts of half a round trip, in nanoseconds. On a virtual machine it tells whether the
// host has its cores side by side or far apart just now, which decides over every figure of shared memory.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kBursts = 21, kRoundTrips = 2000, kWarmUp = 2000 };

static struct {
  _Alignas(128) atomic_uint turn;  // odd: the answering thread's
  _Alignas(128) int answering_cpu;
} shared;

static void stay_on(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Refused by a container that keeps its threads where they are: the figure is of those cores then.
  (void)sched_setaffinity(0, sizeof set, &set);
}

static void await(unsigned turn) {
  while (atomic_load_explicit(&shared.turn, memory_order_acquire) != turn) {
  }
}

static void* answer(void* unused) {
  (void)unused;
  stay_on(shared.answering_cpu);
  for (unsigned turn = 1; turn < 2 * (kWarmUp + kBursts * kRoundTrips); turn += 2) {
    await(turn);
    atomic_store_explicit(&shared.turn, turn + 1, memory_order_release);
  }
  return NULL;
}

static void ask(unsigned* turn, int round_trips) {
  for (int i = 0; i < round_trips; ++i, *turn += 2) {
    atomic_store_explicit(&shared.turn, *turn + 1, memory_order_release);
    await(*turn + 2);
  }
}

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static int ascending(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return difference < 0 ? -1 : difference > 0;
}

// The first two cores that this process may use; 0 where there is one.
static int two_cpus(int cpus[2]) {
  cpu_set_t allowed;
  int count = 0;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  for (int cpu = 0; cpu < CPU_SETSIZE && count < 2; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus[count++] = cpu;
  }
  return count == 2;
}

int main(void) {
  int cpus[2];
  if (!two_cpus(cpus)) {
    fprintf(stderr, "cache_line: this process may use one core only\n");
    return EXIT_FAILURE;
  }
  shared.answering_cpu = cpus[1];
  stay_on(cpus[0]);
  pthread_t thread;
  const int failed = pthread_create(&thread, NULL, answer, NULL);
  if (failed) {
    fprintf(stderr, "cache_line: no thread: %s\n", strerror(failed));
    return EXIT_FAILURE;
  }
  unsigned turn = 0;
  double bursts[kBursts];
  ask(&turn, kWarmUp);
  for (int i = 0; i < kBursts; ++i) {
    const double start = now_ns();
    ask(&turn, kRoundTrips);
    bursts[i] = (now_ns() - start) / (2 * kRoundTrips);
  }
  pthread_join(thread, NULL);
  qsort(bursts, kBursts, sizeof bursts[0], ascending);
  printf("%.1f\n", bursts[kBursts / 2]);
  return EXIT_SUCCESS;
}
