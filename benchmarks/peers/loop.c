#include "loop.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* New processes start where there is room, and the kernel spreads those that share a processor in the first tenths of a
 * second. Libraries that start quickly would be measured before it has, and others after. */
static const double kSettleS = 0.3;

enum {
  kFewestWarmUpCalls = 3,
  kWarmUpShare = 8, /* of the time of the timed calls */
  kFewestCalls = 3,
  kMostCalls = 100000,
  kMemoryCalls = 3,
  kCheckedCalls = 3, /* in a row: libraries may take a shorter way when a call comes again */
  kPageElements = 4096 / sizeof(float)
};

static volatile float consumed;

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- What must come out ------------------------------------------------------------------------------------- */

static size_t turn; /* another one, other inputs: what an earlier call left would be wrong */

/* Small integers: sums are exact in any order. */
static float input_value(size_t i, int rank) { return (float)(((i + turn) * 7 + (size_t)rank * 3) % 11); }

static float sum_value(const struct peer* peer, size_t i) {
  float sum = 0;
  for (int rank = 0; rank < peer->size; ++rank) sum += input_value(i, rank);
  return sum;
}

static float reduced(const struct peer* peer, size_t i, size_t count) { return (void)count, sum_value(peer, i); }

static float own_block_reduced(const struct peer* peer, size_t i, size_t count) {
  return sum_value(peer, (size_t)peer->rank * count + i);
}

static float gathered(const struct peer* peer, size_t i, size_t count) {
  return (void)peer, input_value(i % count, (int)(i / count));
}

static float of_root(const struct peer* peer, size_t i, size_t count) {
  return (void)peer, (void)count, input_value(i, 0);
}

static float own_blocks(const struct peer* peer, size_t i, size_t count) {
  return input_value((size_t)peer->rank * count + i % count, (int)(i / count));
}

static float of_the_other(const struct peer* peer, size_t i, size_t count) {
  return (void)count, input_value(i, 1 - peer->rank);
}

/* `expected` is element i of the result, for blocks of `count` elements. */
static const struct shape {
  const char* name;
  int many_in;  /* as many blocks as ranks, else one */
  int many_out;
  float (*expected)(const struct peer* peer, size_t i, size_t count);
} kShapes[kCollectives] = {
    [kAllReduce] = {"all_reduce", 0, 0, reduced},       [kReduceScatter] = {"reduce_scatter", 1, 0, own_block_reduced},
    [kAllGather] = {"all_gather", 0, 1, gathered},      [kBroadcast] = {"broadcast", 0, 0, of_root},
    [kAllToAll] = {"all_to_all", 1, 1, own_blocks},     [kSendRecv] = {"send_recv", 0, 0, of_the_other},
};

/* ---- One measurement ---------------------------------------------------------------------------------------- */

struct measurement {
  const struct peer* peer;
  enum peer_collective collective;
  float* in;
  float* out;
  size_t bytes;
  size_t count; /* elements of a block */
  size_t in_count;
  size_t out_count;
};

static void set_size(struct measurement* m, size_t bytes) {
  const struct shape* shape = &kShapes[m->collective];
  size_t ranks = (size_t)m->peer->size;
  m->bytes = bytes;
  m->count = bytes / sizeof(float) / (shape->many_in || shape->many_out ? ranks : 1);
  m->in_count = m->count * (shape->many_in ? ranks : 1);
  m->out_count = m->count * (shape->many_out ? ranks : 1);
}

/* Where this rank finds the result. */
static const float* result(const struct measurement* m) {
  return m->collective == kBroadcast && m->peer->rank == 0 ? m->in : m->out;
}

static double mean_over_ranks(const struct peer* peer, double value) {
  float mine = (float)value, sum = 0;
  peer->calls[kAllReduce](peer, &mine, &sum, 1);
  return (double)sum / peer->size;
}

/* One call, and a look at its result. */
static void call(const struct measurement* m) {
  m->peer->calls[m->collective](m->peer, m->in, m->out, m->count);
  const float* out = result(m);
  float sum = 0;
  for (size_t i = 0; i < m->out_count; i += kPageElements) sum += out[i];
  consumed = sum;
}

static void write_inputs(const struct measurement* m) {
  for (size_t i = 0; i < m->in_count; ++i) m->in[i] = input_value(i, m->peer->rank);
}

/* Wrong elements of calls in a row, over all ranks: of that one where this rank finds most. */
static double count_wrong(const struct measurement* m) {
  double most = 0;
  for (int each = 0; each < kCheckedCalls; ++each) {
    ++turn;
    write_inputs(m);
    memset(m->out, 0xEE, m->out_count * sizeof *m->out);
    call(m);
    const float* out = result(m);
    double wrong = 0;
    for (size_t i = 0; i < m->out_count; ++i) wrong += out[i] != kShapes[m->collective].expected(m->peer, i, m->count);
    if (wrong > most) most = wrong;
  }
  return mean_over_ranks(m->peer, most) * m->peer->size;
}

/* The mean time of so many calls, over the ranks, which start together. */
static double mean_s(const struct measurement* m, int calls) {
  mean_over_ranks(m->peer, 0);
  double start = now_s();
  for (int i = 0; i < calls; ++i) call(m);
  return mean_over_ranks(m->peer, (now_s() - start) / calls);
}

/* Rank 0's value on all ranks, bit by bit: a library may add up in another order on each. */
static double of_rank_0(const struct peer* peer, double value) {
  return mean_over_ranks(peer, peer->rank == 0 ? value : 0) * peer->size;
}

/* By the smallest call, before any that is measured or shows the bare program which of its ways is quickest. */
static void settle(const struct peer* peer) {
  double start = now_s();
  while (of_rank_0(peer, now_s() - start) < kSettleS) {
  }
}

/* How many calls take about `seconds`: the same number on all ranks. */
static int warm_up(const struct measurement* m, double seconds) {
  double call_s = 0, spent_s = 0;
  int made = 0;
  for (int batch = 1; made < kFewestWarmUpCalls || spent_s < seconds / kWarmUpShare;
       batch *= batch < kMostCalls ? 2 : 1) {
    call_s = of_rank_0(m->peer, mean_s(m, batch));
    spent_s += batch * call_s;
    made += batch;
  }
  double wanted = call_s > 0 ? seconds / call_s : kMostCalls;
  return wanted < kFewestCalls ? kFewestCalls : wanted > kMostCalls ? kMostCalls : (int)wanted;
}

static void measure_time(const struct measurement* m, double seconds) {
  write_inputs(m);
  memset(m->out, 0xEE, m->out_count * sizeof *m->out);
  call(m); /* the first one, in which the bare program looks for its quickest way */
  /* Some libraries touch more of their own memory for the first time than a few calls do. */
  int calls = warm_up(m, seconds);
  double one_s = mean_s(m, calls) / (m->collective == kSendRecv ? 2 : 1);
  double wrong = count_wrong(m);
  if (m->peer->rank == 0) printf("%zu %d %.4f %.0f\n", m->bytes, calls, one_s * 1e6, wrong);
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

/* The figure of a line such as "VmHWM:    1234 kB"; 0 when there is none. */
static double read_kib(const char* path, const char* field) {
  FILE* file = fopen(path, "r");
  if (!file) return 0;
  char line[256];
  double kib = 0;
  while (fgets(line, sizeof line, file))
    if (strncmp(line, field, strlen(field)) == 0) kib = strtod(line + strlen(field), NULL);
  fclose(file);
  return kib;
}

static double peak_kib(void) { return read_kib("/proc/self/status", "VmHWM:"); }
static double share_kib(void) { return read_kib("/proc/self/smaps_rollup", "Pss:"); }

static double peak_at_start_kib, share_at_start_kib;

/* Before main(), and so before the library allocates. */
__attribute__((constructor)) static void note_start(void) {
  peak_at_start_kib = peak_kib();
  share_at_start_kib = share_kib();
}

static void measure_memory(const struct measurement* m) {
  write_inputs(m);
  for (int i = 0; i < kMemoryCalls; ++i) call(m);
  double buffers_kib = (double)((m->in_count + m->out_count) * sizeof(float)) / 1024;
  mean_over_ranks(m->peer, 0); /* all have touched what they touch, and none has ended */
  double peak = mean_over_ranks(m->peer, peak_kib() - peak_at_start_kib - buffers_kib);
  double share = mean_over_ranks(m->peer, share_kib() - share_at_start_kib - buffers_kib);
  if (m->peer->rank == 0) printf("%zu %.0f %.0f\n", m->bytes, peak, share);
}

/* ---- The loop ----------------------------------------------------------------------------------------------- */

static int collective_of(const char* name) {
  for (int i = 0; i < kCollectives; ++i)
    if (strcmp(name, kShapes[i].name) == 0) return i;
  return -1;
}

static float* allocate(const struct peer* peer, size_t bytes) {
  bytes = (bytes + 4095) / 4096 * 4096;
  float* memory = peer->allocate ? peer->allocate(peer, bytes) : aligned_alloc(4096, bytes);
  if (!memory) {
    fprintf(stderr, "cannot allocate %zu bytes; leave the largest sizes out\n", bytes);
    exit(1);
  }
  memset(memory, 0, bytes);
  return memory;
}

size_t largest_size(int argc, char** argv) {
  size_t largest = sizeof(float);
  for (int i = 3; i < argc; ++i) {
    size_t bytes = strtoull(argv[i], NULL, 10);
    if (bytes > largest) largest = bytes;
  }
  return largest;
}

int run_loop(const struct peer* peer, int argc, char** argv) {
  if (argc >= 2 && strcmp(argv[1], "nothing") == 0) return 0;
  int memory = argc >= 2 && strcmp(argv[1], "memory") == 0;
  int collective = argc < 2 ? -1 : memory ? kAllReduce : collective_of(argv[1]);
  if (argc < 4 || collective < 0 || (collective == kSendRecv && peer->size != 2)) {
    fprintf(stderr, "usage: %s COLLECTIVE|memory|nothing SECONDS BYTES...; send_recv has two ranks\n", argv[0]);
    return 2;
  }
  if (!peer->calls[collective]) return kNoSuchCollective;
  struct measurement m = {.peer = peer, .collective = (enum peer_collective)collective};
  for (int i = 3; i < argc; ++i) {
    set_size(&m, strtoull(argv[i], NULL, 10));
    if (m.count > 0) continue;
    fprintf(stderr, "%s bytes are less than one float for each rank\n", argv[i]);
    return 2;
  }
  m.in = allocate(peer, largest_size(argc, argv));
  m.out = allocate(peer, largest_size(argc, argv));
  if (!memory) settle(peer);
  for (int i = 3; i < argc; ++i) {
    set_size(&m, strtoull(argv[i], NULL, 10));
    if (memory)
      measure_memory(&m);
    else
      measure_time(&m, strtod(argv[2], NULL));
    fflush(stdout);
  }
  if (!peer->allocate) {
    free(m.out);
    free(m.in);
  }
  return 0;
}
