/* A library for the loop of `benchmarks/compare`. Arguments before run_loop()'s: 0, or 1 to make one element of each
 * result wrong, of one rank; 2 for two ranks whose sums of one element differ, unless one of the two is 0. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "benchmarks/peers/loop.h"

/* With one rank all collectives are this, and all blocks the whole. The loop's own sums are of one element. */
static void copy(const struct peer* peer, const float* in, float* out, size_t count) {
  memcpy(out, in, count * sizeof *out);
  if (count > 1) out[count - 1] += *(const int*)peer->state ? 1 : 0;
}

static void broadcast(const struct peer* peer, const float* in, float* out, size_t count) {
  (void)out;
  if (*(const int*)peer->state) ((float*)in)[count / 2] += 1;
}

enum { kMostFloats = 1024, kMostSeconds = 20 };

struct shared {
  atomic_int arrived;
  float values[2][kMostFloats];
};

static void meet(struct shared* shared) {
  int before = atomic_fetch_add(&shared->arrived, 1);
  while (atomic_load(&shared->arrived) / 2 == before / 2) sched_yield();
}

static void add(const struct peer* peer, const float* in, float* out, size_t count) {
  struct shared* shared = peer->state;
  memcpy(shared->values[peer->rank], in, count * sizeof *in);
  meet(shared);
  for (size_t i = 0; i < count; ++i) out[i] = shared->values[0][i] + shared->values[1][i];
  int differs = count == 1 && peer->rank == 1 && shared->values[0][0] != 0 && shared->values[1][0] != 0;
  if (differs) out[0] *= 1.5F;
  meet(shared);
}

static int run_two_ranks(int argc, char** argv) {
  void* memory = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  pid_t other = fork();
  alarm(kMostSeconds); /* ranks that make different calls wait for each other */
  struct peer peer = {.rank = other == 0, .size = 2, .state = memory, .calls = {[kAllReduce] = add}};
  int status = run_loop(&peer, argc, argv);
  if (other == 0) return status;
  int others = 0;
  return waitpid(other, &others, 0) == other && others == 0 ? status : 1;
}

int main(int argc, char** argv) {
  int wrong = argc > 1 ? atoi(argv[1]) : 0;
  if (wrong == 2) return run_two_ranks(argc - 1, argv + 1);
  struct peer peer = {.rank = 0,
                      .size = 1,
                      .state = &wrong,
                      .calls = {[kAllReduce] = copy,
                                [kReduceScatter] = copy,
                                [kAllGather] = copy,
                                [kBroadcast] = broadcast,
                                [kAllToAll] = copy}};
  return run_loop(&peer, argc - 1, argv + 1);
}
