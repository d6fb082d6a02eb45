/* What a bare program of n processes reaches in all-reduce on one host: the figures beside which a library's are judged.
 * It has one communicator, one type, one operation, fixed buffers, no errors and nobody else to wait for. Arguments
 * before run_loop()'s: `mapped` or `private`, and the number of ranks, which it forks.
 *
 *   mapped   every rank sees all buffers: each reduces its share of the vector in one pass
 *   private  buffers are malloc memory: they are read through the kernel, or go through shared memory in pieces
 *
 * Small vectors go in one hop in both. Where there are several ways, the fastest is found for each size before the calls
 * are timed. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"

#if defined(__SSE__)
#include <immintrin.h>
#endif

enum {
  kMostRanks = 256,
  kLine = 64,
  kLineFloats = kLine / sizeof(float),
  kHopFloats = 8192, /* the most that goes in one hop */
  kLineHopFloats = (kLine - sizeof(uint64_t)) / sizeof(float),
  kStageFloats = 1 << 16, /* the largest piece that goes through shared memory */
  kStages = 3,
  kBlockFloats = 2048, /* is reduced in the first cache */
  kTuneFloats = 1 << 22
};

/* ---- What all processes share ------------------------------------------------------------------------------- */

/* A contribution with its flag: a small one is in the same line, and so in one transfer. */
struct hop {
  _Alignas(kLine) _Atomic uint64_t flag; /* number of the call whose values are there */
  float values[kHopFloats - 2];
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

static void wait_for(const struct rank* self, const _Atomic uint64_t* flag, uint64_t value) {
  for (unsigned turn = 1; atomic_load_explicit(flag, memory_order_acquire) < value; ++turn) {
    if (self->crowded || turn % 256 == 0) sched_yield();
#if defined(__SSE__)
    _mm_pause();
#endif
  }
}

static void barrier(struct rank* self) {
  uint64_t number = ++self->barriers;
  atomic_store_explicit(&self->shared->boards[self->rank].arrived, number, memory_order_release);
  for (int rank = 0; rank < self->size; ++rank) wait_for(self, &self->shared->boards[rank].arrived, number);
}

/* ---- Arithmetic --------------------------------------------------------------------------------------------- */

static void add(float* restrict out, const float* restrict a, const float* restrict b, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

static void add_to(float* restrict out, const float* restrict a, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] += a[i];
}

static void add_to_both(float* restrict out, float* restrict out2, const float* restrict a, const float* restrict b,
                        size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = out2[i] = a[i] + b[i];
}

/* Past the caches, where the processor can. */
static void stream(float* out, const float* in, size_t count) {
  size_t i = 0;
#if defined(__SSE__)
  if ((uintptr_t)out % 16 == 0)
    for (; i + 4 <= count; i += 4) _mm_stream_ps(out + i, _mm_loadu_ps(in + i));
#endif
  for (; i < count; ++i) out[i] = in[i];
}

static void stream_end(void) {
#if defined(__SSE__)
  _mm_sfence();
#endif
}

/* Where the share of `rank` of `count` elements begins: at a line. */
static size_t share(size_t count, int rank, int size) {
  if (rank == size) return count;
  return count / (size_t)size * (size_t)rank / kLineFloats * kLineFloats;
}

/* ---- One hop ------------------------------------------------------------------------------------------------ */

/* Two places in turn: who writes the one of a call has seen all of the call before it, and so has nobody that reads the
 * one before that. */
static void one_hop(struct rank* self, const float* in, float* out, size_t count, size_t piece) {
  (void)piece;
  uint64_t number = ++self->hops;
  struct hop* mine = &self->shared->boards[self->rank].hops[number % 2];
  memcpy(mine->values, in, count * sizeof *in);
  atomic_store_explicit(&mine->flag, number, memory_order_release);
  for (int rank = 0; rank < self->size; ++rank) {
    const struct hop* hop = &self->shared->boards[rank].hops[number % 2];
    wait_for(self, &hop->flag, number);
    if (rank == 0)
      memcpy(out, hop->values, count * sizeof *out);
    else
      add_to(out, hop->values, count);
  }
}

/* ---- Mapped buffers ----------------------------------------------------------------------------------------- */

static float* of_rank(const struct rank* self, const float* mine, int rank) {
  ptrdiff_t distance = (ptrdiff_t)self->buffers_size * (rank - self->rank);
  return (float*)((char*)mine + distance);
}

static void reduce_block(const struct rank* self, const float* in, float* out, size_t count, int past_caches) {
  _Alignas(kLine) float sum[kBlockFloats];
  add(sum, of_rank(self, in, 0), of_rank(self, in, 1), count);
  for (int rank = 2; rank < self->size; ++rank) add_to(sum, of_rank(self, in, rank), count);
  for (int rank = 0; rank < self->size; ++rank) {
    if (past_caches)
      stream(of_rank(self, out, rank), sum, count);
    else
      memcpy(of_rank(self, out, rank), sum, count * sizeof *sum);
  }
}

/* One pass over this rank's share, between two barriers. `past_caches`: 0 or 1. */
static void direct(struct rank* self, const float* in, float* out, size_t count, size_t past_caches) {
  barrier(self); /* the inputs are there, and nobody reads the outputs any more */
  size_t begin = share(count, self->rank, self->size), end = share(count, self->rank + 1, self->size);
  if (self->size == 2 && !past_caches) {
    add_to_both(of_rank(self, out, 0) + begin, of_rank(self, out, 1) + begin, of_rank(self, in, 0) + begin,
                of_rank(self, in, 1) + begin, end - begin);
  } else {
    for (size_t at = begin; at < end; at += kBlockFloats)
      reduce_block(self, in + at, out + at, end - at < kBlockFloats ? end - at : kBlockFloats, past_caches != 0);
    if (past_caches) stream_end();
  }
  barrier(self); /* the outputs are there, and nobody reads the inputs any more */
}

static const struct way kMappedWays[] = {{one_hop, 0, kHopFloats - 2}, {direct, 0, 0}, {direct, 1, 0}, {0}};

/* ---- Private buffers ---------------------------------------------------------------------------------------- */

/* Reads `count` elements at `from` in another rank's memory. */
static int pull(pid_t pid, float* to, const float* from, size_t count) {
  struct iovec here = {to, count * sizeof *to}, there = {(void*)from, count * sizeof *from};
  while (here.iov_len > 0) {
    ssize_t done = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (done <= 0) return 0;
    here = (struct iovec){(char*)here.iov_base + done, here.iov_len - (size_t)done};
    there = (struct iovec){(char*)there.iov_base + done, there.iov_len - (size_t)done};
  }
  return 1;
}

static void must_pull(pid_t pid, float* to, const float* from, size_t count) {
  if (pull(pid, to, from, count)) return;
  perror("limit: process_vm_readv");
  exit(1);
}

/* Every rank reads its share of the others' inputs and reduces it, then the others' results. */
static void through_kernel(struct rank* self, const float* in, float* out, size_t count, size_t piece) {
  struct board* boards = self->shared->boards;
  boards[self->rank].in = in;
  boards[self->rank].out = out;
  barrier(self); /* addresses and inputs are there */
  size_t end = share(count, self->rank + 1, self->size);
  for (size_t at = share(count, self->rank, self->size); at < end; at += piece) {
    size_t now = end - at < piece ? end - at : piece;
    const float* sum = in + at;
    for (int rank = 0; rank < self->size; ++rank) {
      if (rank == self->rank) continue;
      must_pull(boards[rank].pid, self->scratch, boards[rank].in + at, now);
      if (sum == out + at)
        add_to(out + at, self->scratch, now);
      else
        add(out + at, sum, self->scratch, now);
      sum = out + at;
    }
  }
  barrier(self); /* all shares are reduced */
  for (int rank = 0; rank < self->size; ++rank) {
    size_t begin = share(count, rank, self->size);
    if (rank != self->rank)
      must_pull(boards[rank].pid, out + begin, boards[rank].out + begin, share(count, rank + 1, self->size) - begin);
  }
  barrier(self); /* nobody reads here any more */
}

/* A piece of the vector in shared memory. Of the piece every rank has its own part to reduce. */
struct piece {
  size_t at;
  size_t count;
  size_t stage;
};

static float* stage(const struct rank* self, int rank, const struct piece* piece) {
  return self->shared->boards[rank].stages[piece->stage];
}

/* The other ranks' parts of this rank's input. */
static void copy_in(const struct rank* self, const float* in, const struct piece* piece) {
  float* to = stage(self, self->rank, piece);
  size_t begin = share(piece->count, self->rank, self->size), end = share(piece->count, self->rank + 1, self->size);
  memcpy(to, in + piece->at, begin * sizeof *to);
  memcpy(to + end, in + piece->at + end, (piece->count - end) * sizeof *to);
}

/* This rank's part, where nothing was copied in. */
static void reduce_piece(const struct rank* self, const float* in, const struct piece* piece) {
  size_t begin = share(piece->count, self->rank, self->size);
  size_t count = share(piece->count, self->rank + 1, self->size) - begin;
  float* sum = stage(self, self->rank, piece) + begin;
  const float* own = in + piece->at + begin;
  for (int i = 1; i < self->size; ++i) {
    const float* other = stage(self, (self->rank + i) % self->size, piece) + begin;
    if (i == 1)
      add(sum, own, other, count);
    else
      add_to(sum, other, count);
  }
}

static void copy_out(const struct rank* self, float* out, const struct piece* piece) {
  for (int rank = 0; rank < self->size; ++rank) {
    size_t begin = share(piece->count, rank, self->size), end = share(piece->count, rank + 1, self->size);
    memcpy(out + piece->at + begin, stage(self, rank, piece) + begin, (end - begin) * sizeof *out);
  }
}

/* Three pieces at once are on their way, so that one barrier for each is enough. */
static void through_stages(struct rank* self, const float* in, float* out, size_t count, size_t length) {
  size_t pieces = (count + length - 1) / length;
  struct piece piece[kStages] = {{0}};
  for (size_t step = 0; step < pieces + 2; ++step) {
    if (step < pieces) {
      size_t at = step * length;
      piece[step % kStages] = (struct piece){at, count - at < length ? count - at : length, self->pieces++ % kStages};
      copy_in(self, in, &piece[step % kStages]);
    }
    if (step >= 1 && step <= pieces) reduce_piece(self, in, &piece[(step - 1) % kStages]);
    if (step >= 2) copy_out(self, out, &piece[(step - 2) % kStages]);
    if (step <= pieces) barrier(self);
  }
}

static const struct way kPrivateWays[] = {{one_hop, 0, kHopFloats - 2},
                                          {through_stages, 1 << 12, 0},
                                          {through_stages, 1 << 14, 0},
                                          {through_stages, kStageFloats, 0},
                                          {through_kernel, 1 << 13, 0},
                                          {through_kernel, kStageFloats, 0},
                                          {0}};

/* ---- The fastest way ---------------------------------------------------------------------------------------- */

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int possible(const struct rank* self, const struct way* way, size_t count) {
  if (way->most && count > way->most) return 0;
  return way->all_reduce != through_kernel || atomic_load(&self->shared->cannot_pull) == 0;
}

/* Seconds of some calls, by this rank's clock. */
static double try_out(struct rank* self, const struct way* way, const float* in, float* out, size_t count) {
  size_t calls = kTuneFloats / count;
  calls = calls < 1 ? 1 : calls > 1000 ? 1000 : calls;
  way->all_reduce(self, in, out, count, way->piece); /* warms up */
  barrier(self);
  double start = now_s();
  for (size_t i = 0; i < calls; ++i) way->all_reduce(self, in, out, count, way->piece);
  barrier(self);
  return now_s() - start;
}

/* All ranks make it together; rank 0 decides. Leaves no result in `out`, so that the check sees only the chosen way's. */
static void choose_way(struct rank* self, const float* in, float* out, size_t count) {
  double best_s = 0;
  int best = -1;
  for (int i = 0; self->ways[i].all_reduce; ++i) {
    if (!possible(self, &self->ways[i], count)) continue;
    double time_s = try_out(self, &self->ways[i], in, out, count);
    if (best < 0 || time_s < best_s) best = i, best_s = time_s;
  }
  if (self->rank == 0) atomic_store(&self->shared->chosen, best);
  memset(out, 0xEE, count * sizeof *out);
  barrier(self);
  self->way = &self->ways[atomic_load(&self->shared->chosen)];
  self->way_count = count;
  barrier(self);
}

static void all_reduce(const struct peer* peer, const float* in, float* out, size_t count) {
  struct rank* self = peer->state;
  if (self->size == 1) {
    memcpy(out, in, count * sizeof *out);
  } else if (count <= kLineHopFloats) {
    one_hop(self, in, out, count, 0); /* also what the loop itself needs, whose variables are in no mapped buffer */
  } else {
    if (count != self->way_count) choose_way(self, in, out, count);
    self->way->all_reduce(self, in, out, count, self->way->piece);
  }
}

/* ---- Processes ---------------------------------------------------------------------------------------------- */

static void* share_memory(size_t bytes) {
  int file = memfd_create("limit", MFD_CLOEXEC);
  void* memory = MAP_FAILED;
  if (file >= 0 && ftruncate(file, (off_t)bytes) == 0)
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  if (memory == MAP_FAILED) {
    perror("limit: shared memory");
    exit(1);
  }
  close(file);
  return memory;
}

static void* take_mapped(const struct peer* peer, size_t bytes) {
  struct rank* self = peer->state;
  char* memory = self->buffers + (size_t)self->rank * self->buffers_size + self->buffers_used;
  self->buffers_used += bytes;
  return memory;
}

/* Whether this rank can read the next one's memory. */
static void probe(struct rank* self) {
  struct board* board = &self->shared->boards[self->rank];
  float value = 0, other = 0;
  board->pid = getpid();
  board->in = &value;
#if defined(PR_SET_PTRACER)
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
#endif
  barrier(self);
  const struct board* next = &self->shared->boards[(self->rank + 1) % self->size];
  if (!pull(next->pid, &other, next->in, 1)) atomic_fetch_add(&self->shared->cannot_pull, 1);
  barrier(self);
}

static int run_rank(struct rank* self, int argc, char** argv) {
  probe(self);
  self->scratch = aligned_alloc(4096, kStageFloats * sizeof(float));
  if (!self->scratch) return 1;
  struct peer peer = {.rank = self->rank,
                      .size = self->size,
                      .state = self,
                      .calls = {[kAllReduce] = all_reduce},
                      .allocate = self->buffers ? take_mapped : NULL};
  return run_loop(&peer, argc, argv);
}

/* 0 when all children ended with 0; else the first other status, and the children that are left end with it. */
static int wait_for_children(const pid_t* children, int count) {
  int status = 0;
  for (int left = count; left > 0; --left) {
    int ended = 0;
    if (wait(&ended) < 0) return 1;
    if (ended == 0 || status != 0) continue;
    status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
    for (int i = 0; i < count; ++i) kill(children[i], SIGKILL);
  }
  return status;
}

int main(int argc, char** argv) {
  int size = argc < 3 ? 0 : atoi(argv[2]);
  int mapped = argc >= 2 && strcmp(argv[1], "mapped") == 0;
  if (size < 1 || size > kMostRanks || (!mapped && strcmp(argv[1], "private") != 0)) {
    fprintf(stderr, "usage: %s mapped|private RANKS COLLECTIVE SECONDS BYTES...; up to %d ranks\n", argv[0], kMostRanks);
    return 2;
  }
  cpu_set_t cores;
  struct rank self = {.size = size, .ways = mapped ? kMappedWays : kPrivateWays};
  self.crowded = sched_getaffinity(0, sizeof cores, &cores) == 0 && size > CPU_COUNT(&cores);
  self.shared = share_memory(sizeof(struct shared) + (size_t)size * sizeof(struct board));
  if (mapped) {
    self.buffers_size = 2 * ((largest_size(argc - 2, argv + 2) + 4095) / 4096 * 4096);
    self.buffers = share_memory((size_t)size * self.buffers_size);
  }
  pid_t children[kMostRanks], parent = getpid();
  for (self.rank = 0; self.rank < size; ++self.rank) {
    children[self.rank] = fork();
    if (children[self.rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      exit(getppid() == parent ? run_rank(&self, argc - 2, argv + 2) : 1);
    }
    if (children[self.rank] < 0) {
      perror("limit: fork");
      return 1; /* the others end with this process */
    }
  }
  return wait_for_children(children, size);
}
