// How near two processors are, which decides over every figure of shared memory; on a virtual machine whose host moves
// its processors that is of just now. Two threads, each on a processor of its own, print two figures:
//
//   how long a cache line takes that they hand to and fro, in nanoseconds: the median over bursts of half a round trip;
//   how many times as long a loop without memory takes on both at once as on one alone: 1 on two cores, about 2 where
//   they are the two threads of one core. The line alone does not tell those from cores that share a cache.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  kBursts = 21,
  kRoundTrips = 2000,
  kWarmUp = 2000,
  kLoops = 7,         // of which the least counts: a single disturbance makes one longer
  kLoopSteps = 80000  // tens of microseconds: waking a thread and handing it the turn take little beside it
};

static struct {
  _Alignas(128) atomic_uint turn;  // odd: the answering thread's
  _Alignas(128) int answering_cpu;
  // A thread that spun while the other one loops alone would take half of the core that they may share.
  sem_t answering_loops_alone, both_loop;
  double answering_alone_ns;
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

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

static double lesser(double a, double b) { return a < b ? a : b; }

// Independent additions, more of them than a core has ports for, so that two threads of one core take twice as long.
static void loop(void) {
  unsigned long a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
  for (unsigned long i = 0; i < kLoopSteps; ++i) {
    a += i, b += i, c += i, d += i, e += i, f += i, g += i, h += i;
    // Keeps the compiler from working the sums out.
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
  }
}

static double loop_ns(void) {
  const double start = now_ns();
  loop();
  return now_ns() - start;
}

static void answer_round_trips(unsigned* turn, int round_trips) {
  for (int i = 0; i < round_trips; ++i, *turn += 2) {
    await(*turn);
    atomic_store_explicit(&shared.turn, *turn + 1, memory_order_release);
  }
}

static void answer_loops(unsigned turn) {
  for (int i = 0; i < kLoops; ++i, turn += 2) {
    sem_wait(&shared.answering_loops_alone);
    const double alone = loop_ns();
    shared.answering_alone_ns = i == 0 ? alone : lesser(shared.answering_alone_ns, alone);
    sem_post(&shared.both_loop);
    answer_round_trips(&turn, 1);
    await(turn);
    loop();
    atomic_store_explicit(&shared.turn, turn + 1, memory_order_release);
  }
}

static void* answer(void* unused) {
  (void)unused;
  stay_on(shared.answering_cpu);
  unsigned turn = 1;
  answer_round_trips(&turn, kWarmUp + kBursts * kRoundTrips);
  answer_loops(turn);
  return NULL;
}

static void ask(unsigned* turn, int round_trips) {
  for (int i = 0; i < round_trips; ++i, *turn += 2) {
    atomic_store_explicit(&shared.turn, *turn + 1, memory_order_release);
    await(*turn + 2);
  }
}

// How many times as long the loop takes on both processors at once. At once it lasts until the later one is done: the
// earlier one may have had the core to itself while the host had the other one wait.
static double both_at_once(unsigned turn) {
  double alone = 0, both = 0;
  for (int i = 0; i < kLoops; ++i, turn += 2) {
    const double alone_now = loop_ns();
    sem_post(&shared.answering_loops_alone);
    sem_wait(&shared.both_loop);
    ask(&turn, 1);  // neither waits for its processor any more
    const double start = now_ns();
    atomic_store_explicit(&shared.turn, turn + 1, memory_order_release);
    loop();
    await(turn + 2);
    const double both_now = now_ns() - start;
    alone = i == 0 ? alone_now : lesser(alone, alone_now);
    both = i == 0 ? both_now : lesser(both, both_now);
  }
  // The slower one's: a neighbour of the machine may be at work on the other thread of one's core.
  return both / (alone > shared.answering_alone_ns ? alone : shared.answering_alone_ns);
}

static int ascending(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return difference < 0 ? -1 : difference > 0;
}

// The first two processors that this process may use; 0 where there is one.
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
    fprintf(stderr, "cache_line: this process may use one processor only\n");
    return EXIT_FAILURE;
  }
  shared.answering_cpu = cpus[1];
  sem_init(&shared.answering_loops_alone, 0, 0);
  sem_init(&shared.both_loop, 0, 0);
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
  const double times_as_long = both_at_once(turn);
  pthread_join(thread, NULL);
  qsort(bursts, kBursts, sizeof bursts[0], ascending);
  printf("%.1f %.2f\n", bursts[kBursts / 2], times_as_long);
  return EXIT_SUCCESS;
}
