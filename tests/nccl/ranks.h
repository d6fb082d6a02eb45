/* Ranks of the test: threads or processes with one rank each, or one thread that has all. */
#ifndef TUTTI_TESTS_NCCL_RANKS_H
#define TUTTI_TESTS_NCCL_RANKS_H

#include "nccl/interface.h"

enum { kMostRanks = 8 };

/* Those of `count` ranks that the calling thread has: `local` of them, from `first` on. What it does for all of them it
 * does in a group. */
struct ranks {
  int count, first, local;
  ncclUniqueId id;
  ncclComm_t comms[kMostRanks];
  cudaStream_t streams[kMostRanks];
};

enum ranks_are { kThreads, kProcesses, kOneThread };

/* Runs `body` with a communicator of all ranks, and destroys that. Ends the process where anything fails. */
void with_communicator(enum ranks_are how, int count, void (*body)(struct ranks*));
/* The same without a communicator: there is the id alone. */
void with_id(enum ranks_are how, int count, void (*body)(struct ranks*));

void wait_for_streams(struct ranks* ranks);
/* Returns when all ranks have called it, without a call of the library. */
void meet(struct ranks* ranks);

#endif
