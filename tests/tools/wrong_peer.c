/* A library of one rank for the loop of `benchmarks/compare`. Arguments before run_loop()'s: 0, or 1 to make one
 * element of each result wrong. */
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char** argv) {
  int wrong = argc > 1 && atoi(argv[1]);
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
