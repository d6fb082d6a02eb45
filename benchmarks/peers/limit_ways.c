#define _GNU_SOURCE
#include "limit_ways.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#if defined(__SSE__)
#include <immintrin.h>
#endif

enum { kBlockFloats = 2048 }; /* is reduced in the first cache */

static void wait_for(const struct rank* self, const _Atomic uint64_t* flag, uint64_t value) {
  for (unsigned turn = 1; atomic_load_explicit(flag, memory_order_acquire) < value; ++turn) {
    if (self->crowded || turn % 256 == 0) sched_yield();
#if defined(__SSE__)
    _mm_pause();
#endif
  }
}

void barrier(struct rank* self) {
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
void one_hop(struct rank* self, const float* in, float* out, size_t count, size_t piece) {
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

const struct way kMappedWays[] = {{one_hop, 0, kHopFloats}, {direct, 0, 0}, {direct, 1, 0}, {0}};

/* ---- Private buffers ---------------------------------------------------------------------------------------- */

int pull(pid_t pid, float* to, const float* from, size_t count) {
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
  int past_caches; /* stores to the stages */
};

static float* stage(const struct rank* self, int rank, const struct piece* piece) {
  return self->shared->boards[rank].stages[piece->stage];
}

static void store(float* to, const float* in, size_t count, int past_caches) {
  if (past_caches)
    stream(to, in, count);
  else
    memcpy(to, in, count * sizeof *to);
}

/* The other ranks' parts of this rank's input. */
static void copy_in(const struct rank* self, const float* in, const struct piece* piece) {
  float* to = stage(self, self->rank, piece);
  size_t begin = share(piece->count, self->rank, self->size), end = share(piece->count, self->rank + 1, self->size);
  store(to, in + piece->at, begin, piece->past_caches);
  store(to + end, in + piece->at + end, piece->count - end, piece->past_caches);
}

/* All ranks' values of `count` elements of a piece, from its element `begin` on. */
static void reduce_to(const struct rank* self, const float* in, const struct piece* piece, size_t begin, size_t count,
                      float* sum) {
  const float* own = in + piece->at + begin;
  for (int i = 1; i < self->size; ++i) {
    const float* other = stage(self, (self->rank + i) % self->size, piece) + begin;
    if (i == 1)
      add(sum, own, other, count);
    else
      add_to(sum, other, count);
  }
}

/* This rank's part, where nothing was copied in. */
static void reduce_piece(const struct rank* self, const float* in, const struct piece* piece) {
  size_t begin = share(piece->count, self->rank, self->size), end = share(piece->count, self->rank + 1, self->size);
  float* result = stage(self, self->rank, piece);
  if (!piece->past_caches) {
    reduce_to(self, in, piece, begin, end - begin, result + begin);
    return;
  }
  _Alignas(kLine) float sum[kBlockFloats];
  for (size_t at = begin; at < end; at += kBlockFloats) {
    size_t count = end - at < kBlockFloats ? end - at : kBlockFloats;
    reduce_to(self, in, piece, at, count, sum);
    stream(result + at, sum, count);
  }
}

static void copy_out(const struct rank* self, float* out, const struct piece* piece) {
  for (int rank = 0; rank < self->size; ++rank) {
    size_t begin = share(piece->count, rank, self->size), end = share(piece->count, rank + 1, self->size);
    memcpy(out + piece->at + begin, stage(self, rank, piece) + begin, (end - begin) * sizeof *out);
  }
}

/* Three pieces at once are on their way, so that one barrier for each is enough. */
static void step_through_stages(struct rank* self, const float* in, float* out, size_t count, size_t length,
                                int past_caches) {
  size_t pieces = (count + length - 1) / length;
  struct piece piece[kStages] = {{0}};
  for (size_t step = 0; step < pieces + 2; ++step) {
    if (step < pieces) {
      size_t at = step * length;
      size_t now = count - at < length ? count - at : length;
      piece[step % kStages] = (struct piece){at, now, self->pieces++ % kStages, past_caches};
      copy_in(self, in, &piece[step % kStages]);
    }
    if (step >= 1 && step <= pieces) reduce_piece(self, in, &piece[(step - 1) % kStages]);
    if (step >= 2) copy_out(self, out, &piece[(step - 2) % kStages]);
    if (past_caches) stream_end();
    if (step <= pieces) barrier(self);
  }
}

static void through_stages(struct rank* self, const float* in, float* out, size_t count, size_t length) {
  step_through_stages(self, in, out, count, length, 0);
}

/* What the other ranks read goes past the caches: between far cores a store through them waits until the other core's
 * copy of its line is taken away. */
static void past_stages(struct rank* self, const float* in, float* out, size_t count, size_t length) {
  step_through_stages(self, in, out, count, length, 1);
}

const struct way kPrivateWays[] = {{one_hop, 0, kHopFloats},
                                          {through_stages, 1 << 12, 0},
                                          {through_stages, 1 << 14, 0},
                                          {through_stages, kStageFloats, 0},
                                          {past_stages, 1 << 12, 0},
                                          {past_stages, kStageFloats, 0},
                                          {through_kernel, 1 << 13, 0},
                                          {through_kernel, kStageFloats, 0},
                                          {0}};

int uses_kernel(const struct way* way) { return way->all_reduce == through_kernel; }
