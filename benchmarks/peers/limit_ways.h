/* The ways to all-reduce that limit.c tries, and what its processes share. */
#ifndef TUTTI_BENCHMARKS_PEERS_LIMIT_WAYS_H
#define TUTTI_BENCHMARKS_PEERS_LIMIT_WAYS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
  kLine = 64,
  kLineFloats = kLine / sizeof(float),
  kHopFloats = 8192 - 2, /* the most that goes in one hop */
  kLineHopFloats = (kLine - sizeof(uint64_t)) / sizeof(float),
  kStageFloats = 1 << 16, /* the largest piece that goes through shared memory */
  kStages = 3
};

/* A contribution with its flag: a small one is in the same line, and so in one transfer. */
struct hop {
  _Alignas(kLine) _Atomic uint64_t flag; /* number of the call whose values are there */
  float values[kHopFloats];
};

/* One rank's part. The first two lines are written by it alone, and read by all. */
struct board {
  _Alignas(kLine) _Atomic uint64_t arrived; /* barriers that it has reached */
  _Alignas(kLine) const float* in;          /* addresses in its own process */
  float* out;
  pid_t pid;
  struct hop hops[2];
  _Alignas(kLine) float stages[kStages][kStageFloats];
};

struct shared {
  _Alignas(kLine) _Atomic int cannot_pull; /* ranks that the kernel does not let read another's memory */
  _Atomic int chosen;                      /* by rank 0 */
  struct board boards[];
};

struct rank {
  int rank;
  int size;
  int crowded; /* more ranks than cores */
  struct shared* shared;
  char* buffers; /* `mapped`: of all ranks; at the same address in each of them */
  size_t buffers_size;
  size_t buffers_used;
  uint64_t barriers;
  uint64_t hops;
  uint64_t pieces; /* that went through shared memory */
  const struct way* ways;
  const struct way* way; /* for `way_count` elements */
  size_t way_count;
  float* scratch; /* kStageFloats */
};

/* One way to do it. */
struct way {
  void (*all_reduce)(struct rank* self, const float* in, float* out, size_t count, size_t piece);
  size_t piece; /* elements at once; what it means is the way's */
  size_t most;  /* elements; 0: any number */
};

/* Ends with an entry without a function. */
extern const struct way kMappedWays[];
extern const struct way kPrivateWays[];

/* With flags in one line with the values: for up to kHopFloats, from and to any memory. `piece` is not used. */
void one_hop(struct rank* self, const float* in, float* out, size_t count, size_t piece);

/* Whether it needs pull(). */
int uses_kernel(const struct way* way);

/* Reads `count` elements at `from` in another process's memory. 0: the kernel refuses. */
int pull(pid_t pid, float* to, const float* from, size_t count);

/* Returns when all ranks have called it. */
void barrier(struct rank* self);

#endif
