/* What a bare program of n processes reaches in all-reduce on one host: the figures by which a library's are judged. It
 * has one communicator, one type, one operation, fixed buffers, no errors and nobody else to wait for. Arguments before
 * run_loop()'s: `mapped` or `private`, and the number of ranks, which it forks.
 *
 *   mapped   every rank sees all buffers: each reduces its share of the vector in one pass
 *   private  buffers are malloc memory: they are read through the kernel, or go through shared memory in pieces
 *
 * Small vectors go in one hop in both. Where there are several ways, the fastest is found for each size before calls
 * are timed. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "limit_ways.h"
#include "loop.h"

enum { kMostRanks = 256, kTuneFloats = 1 << 22, kTurns = 3 };
/* Between buffers: at a multiple of 128 MiB from each other some processors' caches hold less of both. */
enum { kApart = 17 * 4096 };

/* ---- The fastest way ---------------------------------------------------------------------------------------- */

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int possible(const struct rank* self, const struct way* way, size_t count) {
  if (way->most && count > way->most) return 0;
  return !uses_kernel(way) || atomic_load(&self->shared->cannot_pull) == 0;
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

/* All ranks make it together; rank 0 decides. The ways take turns, and the quickest of a way counts: what disturbs the
 * machine meets some of them only. Leaves no result in `out`: the check is to see the chosen way's. */
static void choose_way(struct rank* self, const float* in, float* out, size_t count) {
  double best_s = 0;
  int best = -1;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int i = 0; self->ways[i].all_reduce; ++i) {
      if (!possible(self, &self->ways[i], count)) continue;
      double time_s = try_out(self, &self->ways[i], in, out, count);
      if (best < 0 || time_s < best_s) best = i, best_s = time_s;
    }
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
  self->buffers_used += bytes + kApart;
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
  int status = run_loop(&peer, argc, argv);
  free(self->scratch);
  return status;
}

/* 0 when all children ended with 0; else the first other status, and the children that are left end with it. */
static int wait_for_children(pid_t* children, int count) {
  int status = 0;
  for (int left = count; left > 0; --left) {
    int ended = 0;
    pid_t child = wait(&ended);
    if (child < 0) return 1;
    int failed = ended != 0 && status == 0;
    if (failed) status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 1;
    for (int i = 0; i < count; ++i) {
      if (children[i] == child) children[i] = 0; /* the number may soon be another process's */
      if (failed && children[i] > 0) kill(children[i], SIGKILL);
    }
  }
  return status;
}

int main(int argc, char** argv) {
  int size = argc < 3 ? 0 : atoi(argv[2]);
  int mapped = argc >= 2 && strcmp(argv[1], "mapped") == 0;
  if (size < 1 || size > kMostRanks || (!mapped && strcmp(argv[1], "private") != 0)) {
    fprintf(stderr, "usage: %s mapped|private RANKS COLLECTIVE SECONDS BYTES...; 1 to %d ranks\n", argv[0],
            kMostRanks);
    return 2;
  }
  cpu_set_t cores;
  struct rank self = {.size = size, .ways = mapped ? kMappedWays : kPrivateWays};
  self.crowded = sched_getaffinity(0, sizeof cores, &cores) == 0 && size > CPU_COUNT(&cores);
  self.shared = share_memory(sizeof(struct shared) + (size_t)size * sizeof(struct board));
  if (mapped) {
    self.buffers_size = 2 * ((largest_size(argc - 2, argv + 2) + 4095) / 4096 * 4096 + kApart);
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
