#include "loop.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kWarmUpCalls = 5, kFewestCalls = 3, kMostCalls = 5000, kPageElements = 4096 / sizeof(float) };

static volatile float consumed;

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Small integers: sums are exact in any order. */
static float input_value(size_t i, int rank) { return (float)((i * 7 + (size_t)rank * 3) % 11); }

static float* allocate(size_t bytes) {
  float* memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!memory) {
    fprintf(stderr, "cannot allocate %zu bytes; leave the largest sizes out\n", bytes);
    exit(1);
  }
  memset(memory, 0, (bytes + 4095) / 4096 * 4096);
  return memory;
}

static double mean_over_ranks(const struct peer* peer, double value) {
  float mine = (float)value, sum = 0;
  peer->all_reduce(peer->state, &mine, &sum, 1);
  return (double)sum / peer->size;
}

/* One call, and a look at its result. */
static void call(const struct peer* peer, const float* in, float* out, size_t count) {
  peer->all_reduce(peer->state, in, out, count);
  float sum = 0;
  for (size_t i = 0; i < count; i += kPageElements) sum += out[i];
  consumed = sum;
}

/* Wrong elements of a fresh call, over all ranks. */
static double count_wrong(const struct peer* peer, float* in, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) in[i] = input_value(i, peer->rank);
  memset(out, 0xEE, count * sizeof *out);
  peer->all_reduce(peer->state, in, out, count);
  double wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    float expected = 0;
    for (int rank = 0; rank < peer->size; ++rank) expected += input_value(i, rank);
    wrong += out[i] != expected;
  }
  return mean_over_ranks(peer, wrong) * peer->size;
}

static void measure(const struct peer* peer, size_t bytes, double seconds, float* in, float* out) {
  size_t count = bytes / sizeof(float);
  double wrong = count_wrong(peer, in, out, count);
  for (size_t i = 0; i < count; ++i) in[i] = input_value(i, peer->rank);

  double estimate_s = 0;
  double start = now_s();
  for (int i = 0; i < kWarmUpCalls; ++i) {
    double before = now_s();
    call(peer, in, out, count);
    estimate_s = now_s() - before;
    if (mean_over_ranks(peer, now_s() - start) > seconds) break; /* the same decision on all ranks */
  }
  estimate_s = mean_over_ranks(peer, estimate_s);
  double wanted = estimate_s > 0 ? seconds / estimate_s : kMostCalls;
  int calls = wanted < kFewestCalls ? kFewestCalls : wanted > kMostCalls ? kMostCalls : (int)wanted;

  mean_over_ranks(peer, 0); /* all start together */
  start = now_s();
  for (int i = 0; i < calls; ++i) call(peer, in, out, count);
  double mean_s = mean_over_ranks(peer, (now_s() - start) / calls);
  if (peer->rank == 0) {
    printf("%zu %d %.4f %.0f\n", bytes, calls, mean_s * 1e6, wrong);
    fflush(stdout);
  }
}

int run_loop(const struct peer* peer, int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s SECONDS BYTES...\n", argv[0]);
    return 2;
  }
  size_t largest = sizeof(float);
  for (int i = 2; i < argc; ++i) {
    size_t bytes = strtoull(argv[i], NULL, 10);
    if (bytes > largest) largest = bytes;
  }
  float* in = allocate(largest);
  float* out = allocate(largest);
  for (int i = 2; i < argc; ++i) measure(peer, strtoull(argv[i], NULL, 10), strtod(argv[1], NULL), in, out);
  free(out);
  free(in);
  return 0;
}
