/* The same measurement for every library that `benchmarks/compare` compares. */
#ifndef TUTTI_BENCHMARKS_PEERS_LOOP_H
#define TUTTI_BENCHMARKS_PEERS_LOOP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One rank of a library under measurement. */
struct peer {
  int rank;
  int size;
  void* state;
  /* Sums `count` floats of every rank's `in` into every rank's `out`, blocking; ends the process on failure. */
  void (*all_reduce)(void* state, const float* in, float* out, size_t count);
};

/* Measures every size, and prints "BYTES CALLS MICROSECONDS WRONG" lines on rank 0. Arguments, in order: seconds of
 * timed calls per size (a target), then the sizes in bytes. Returns the process's exit status.
 *
 * Buffers are ordinary page-aligned malloc memory; the input is written before the calls are timed, the output is read
 * after each of them (one element of each page). Calls run back to back without a barrier; their number is the same on
 * all ranks; the time is the mean over the calls and then over the ranks. WRONG counts elements over all ranks. */
int run_loop(const struct peer* peer, int argc, char** argv);

#ifdef __cplusplus
}
#endif

#endif
