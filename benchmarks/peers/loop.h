/* The same measurement for every library that `benchmarks/compare` compares. */
#ifndef TUTTI_BENCHMARKS_PEERS_LOOP_H
#define TUTTI_BENCHMARKS_PEERS_LOOP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum peer_collective {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kSendRecv,
  kCollectives
};

struct peer;

/* One blocking call on floats; ends the process on failure. With n ranks, and blocks of `count` floats:
 *
 *                    in         out
 *   kAllReduce       1 block    1 block, the sum
 *   kReduceScatter   n blocks   1 block, the sum of blocks `rank`
 *   kAllGather       1 block    n blocks, in rank order
 *   kBroadcast       1 block    1 block: rank 0's `in`; rank 0's `out` is not used
 *   kAllToAll        n blocks   n blocks: block `rank` of every rank, in rank order
 *   kSendRecv        1 block    1 block: the other rank's; rank 0 sends first, rank 1 when it has received */
typedef void peer_call(const struct peer* peer, const float* in, float* out, size_t count);

/* One rank of a library under measurement. */
struct peer {
  int rank;
  int size;
  void* state;
  peer_call* calls[kCollectives]; /* NULL where the library has none; kAllReduce it must have */
  /* Memory for the buffers, which is never freed; NULL when it is short. Without: page-aligned malloc memory. */
  void* (*allocate)(const struct peer* peer, size_t bytes);
};

/* What run_loop() returns when the library has no such collective. */
enum { kNoSuchCollective = 69 };

/* Arguments, in order: a collective or another word of the list below, seconds of timed calls per size (a target), then
 * the sizes in bytes. Returns the process's exit status. Prints, on rank 0 and for every size:
 *
 *   all_reduce, ...   "BYTES CALLS MICROSECONDS WRONG". BYTES is n blocks where one of the buffers has n, else one;
 *                     rounded down to whole floats in each block. The buffers' memory is written before the calls are
 *                     timed, and the output is read after each of them (one element of each page). Calls run back to
 *                     back without a barrier; their number is the same on all ranks; the time is the mean over the
 *                     calls and then over the ranks, of send_recv half of it: one way. WRONG counts elements of
 *                     the results of three more calls in a row, each of other inputs, over all ranks, the most
 *                     that each finds.
 *   memory            "BYTES PEAK_KIB SHARE_KIB" of three all-reduces, mean over the ranks. PEAK_KIB is the most memory
 *                     that the process had (VmHWM) less the two buffers and what it had when it was started; pages that
 *                     several ranks touch count in each. SHARE_KIB is the same of its share at the end (Pss), in which
 *                     a page of k processes counts a k-th.
 *   nothing           nothing: a program that makes a communicator and destroys it. */
int run_loop(const struct peer* peer, int argc, char** argv);

/* The largest of the sizes in run_loop()'s arguments. */
size_t largest_size(int argc, char** argv);

#ifdef __cplusplus
}
#endif

#endif
