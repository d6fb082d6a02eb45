/* How communicators come to be, change and end. */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "nccl/bodies.h"
#include "nccl/check.h"
#include "nccl/memory.h"

static void init(struct ranks* ranks) {
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    OK(ncclCommInitRank(&ranks->comms[i], ranks->count, ranks->id, ranks->first + i));
  }
  OK(ncclGroupEnd());
}

static void destroy(struct ranks* ranks) {
  for (int i = 0; i < ranks->local; ++i) OK(ncclCommDestroy(ranks->comms[i]));
}

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void test_queries(struct ranks* ranks) {
  for (int i = 0; i < ranks->local; ++i) {
    int count = -1, rank = -1, device = -1;
    ncclResult_t state = ncclInternalError;
    OK(ncclCommCount(ranks->comms[i], &count));
    OK(ncclCommUserRank(ranks->comms[i], &rank));
    OK(ncclCommCuDevice(ranks->comms[i], &device));
    OK(ncclCommGetAsyncError(ranks->comms[i], &state));
    CHECK(count == ranks->count && rank == ranks->first + i && device == 0 && state == ncclSuccess);
  }
}

/* ---- Split */

/* Even and odd ranks apart, in reverse; rank 0 in neither. */
void test_split(struct ranks* ranks) {
  struct ranks halves = *ranks;
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    int rank = ranks->first + i;
    halves.comms[i] = ranks->comms[i];
    OK(ncclCommSplit(ranks->comms[i], rank == 0 ? NCCL_SPLIT_NOCOLOR : rank % 2, -rank, &halves.comms[i], NULL));
  }
  OK(ncclGroupEnd());
  OK(ncclGroupStart());
  long* sums[kMostRanks];
  for (int i = 0; i < ranks->local; ++i) {
    int rank = ranks->first + i, count = 0, place = -1;
    CHECK((halves.comms[i] == NULL) == (rank == 0));
    if (rank == 0) continue;
    OK(ncclCommCount(halves.comms[i], &count));
    OK(ncclCommUserRank(halves.comms[i], &place));
    int last = (ranks->count - 1) % 2 == rank % 2 ? ranks->count - 1 : ranks->count - 2;
    CHECK(count == (rank % 2 ? ranks->count / 2 : (ranks->count - 1) / 2) && place == (last - rank) / 2);
    long value = rank;
    sums[i] = memory_get(sizeof value);
    memory_write(sums[i], &value, sizeof value);
    OK(ncclAllReduce(sums[i], sums[i], 1, ncclInt64, ncclSum, halves.comms[i], ranks->streams[i]));
  }
  OK(ncclGroupEnd());
  wait_for_streams(ranks);
  for (int i = 0; i < ranks->local; ++i) {
    int rank = ranks->first + i;
    if (rank == 0) continue;
    long sum = 0, wanted = 0;
    memory_read(&sum, sums[i], sizeof sum);
    for (int other = 1; other < ranks->count; ++other) wanted += other % 2 == rank % 2 ? other : 0;
    CHECK(sum == wanted);
    memory_put(sums[i]);
    OK(ncclCommDestroy(halves.comms[i]));
  }
  check_all_reduce(ranks);
}

/* ---- Shrink */

static void shrink(struct ranks* ranks, struct ranks* survivors, int excluded, int flags) {
  *survivors = *ranks;
  survivors->count = ranks->count - 1;
  survivors->local = 0;
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    if (ranks->first + i == excluded) continue;
    int at = survivors->local++;
    survivors->streams[at] = ranks->streams[i];
    OK(ncclCommShrink(ranks->comms[i], &excluded, 1, &survivors->comms[at], NULL, flags));
  }
  OK(ncclGroupEnd());
  if (ranks->first > excluded) survivors->first = ranks->first - 1;
  for (int i = 0; i < survivors->local; ++i) {
    int count = 0, rank = -1;
    OK(ncclCommCount(survivors->comms[i], &count));
    OK(ncclCommUserRank(survivors->comms[i], &rank));
    CHECK(count == survivors->count && rank == survivors->first + i);
  }
  if (survivors->local > 0) check_all_reduce(survivors);
}

/* Destroying a communicator waits for its other ranks. */
static void wait_for_all(struct ranks* ranks) {
  struct ranks all = *ranks;
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) OK(ncclCommSplit(ranks->comms[i], 0, 0, &all.comms[i], NULL));
  OK(ncclGroupEnd());
  destroy(&all);
}

/* The one that is left out has no part in it, and the communicator stays what it was. */
void test_shrink(struct ranks* ranks) {
  struct ranks survivors;
  init(ranks);
  for (int excluded = 0; excluded < 2; ++excluded) {
    shrink(ranks, &survivors, excluded, NCCL_SHRINK_DEFAULT);
    destroy(&survivors);
    check_all_reduce(ranks);
  }
  wait_for_all(ranks); /* whoever is still in a call may need a rank that has gone */
  shrink(ranks, &survivors, 0, NCCL_SHRINK_ABORT);
  for (int i = 0; i < ranks->local; ++i) {
    if (ranks->first + i == 0) continue;
    GIVES(ncclInvalidUsage, ncclAllReduce(ranks, ranks, 1, ncclInt8, ncclSum, ranks->comms[i], NULL));
  }
  destroy(&survivors);
  for (int i = 0; i < ranks->local; ++i) OK(ncclCommAbort(ranks->comms[i]));
}

/* Rank 0 dies while the others wait for it in a call, and they go on without. */
void test_shrink_after_death(struct ranks* ranks) {
  init(ranks);
  check_all_reduce(ranks);
  if (ranks->first == 0) {
    usleep(200000);
    _exit(0);
  }
  long* value = memory_get(sizeof *value);
  ncclResult_t state = ncclAllReduce(value, value, 1, ncclInt64, ncclSum, ranks->comms[0], ranks->streams[0]);
  stream_wait(ranks->streams[0]);
  for (double end = now_s() + 20; state == ncclSuccess && now_s() < end; usleep(1000)) {
    OK(ncclCommGetAsyncError(ranks->comms[0], &state));
  }
  CHECK(state == ncclRemoteError);
  SAYS("rank 0");
  memory_put(value);
  struct ranks survivors;
  shrink(ranks, &survivors, 0, NCCL_SHRINK_ABORT);
  OK(ncclCommDestroy(ranks->comms[0]));
  destroy(&survivors);
}

/* Ranks 1 and 2 exchange a message. */
static void check_messages(struct ranks* ranks) {
  int rank = ranks->first, other = 3 - rank;
  long mine = 10 + rank, theirs = 0;
  long *out = memory_get(sizeof mine), *in = memory_get(sizeof theirs);
  memory_write(out, &mine, sizeof mine);
  OK(ncclGroupStart());
  OK(ncclSend(out, 1, ncclInt64, other, ranks->comms[0], ranks->streams[0]));
  OK(ncclRecv(in, 1, ncclInt64, other, ranks->comms[0], ranks->streams[0]));
  OK(ncclGroupEnd());
  stream_wait(ranks->streams[0]);
  memory_read(&theirs, in, sizeof theirs);
  CHECK(theirs == 10 + other);
  memory_put(out);
  memory_put(in);
}

/* Where rank 0 is apart, it is earlier than the others, which go on with what they have among each other. */
void test_revoke(struct ranks* ranks) {
  init(ranks);
  check_all_reduce(ranks);
  meet(ranks);
  int is_apart = ranks->local == 1, is_early = is_apart && ranks->first == 0;
  if (is_early) OK(ncclCommRevoke(ranks->comms[0], NCCL_REVOKE_DEFAULT));
  if (is_apart) meet(ranks);
  if (is_apart && !is_early) check_messages(ranks);
  for (int i = 0; i < ranks->local; ++i) {
    GIVES(ncclInvalidArgument, ncclCommRevoke(ranks->comms[i], 1));
    if (!is_early) OK(ncclCommRevoke(ranks->comms[i], NCCL_REVOKE_DEFAULT));
    ncclResult_t state = ncclInternalError;
    OK(ncclCommGetAsyncError(ranks->comms[i], &state));
    CHECK(state == ncclSuccess);
    GIVES(ncclInvalidUsage, ncclCommRevoke(ranks->comms[i], NCCL_REVOKE_DEFAULT));
    GIVES(ncclInvalidUsage, ncclAllReduce(ranks, ranks, 1, ncclInt8, ncclSum, ranks->comms[i], NULL));
    SAYS("revoked");
    GIVES(ncclInvalidUsage, ncclCommFinalize(ranks->comms[i]));
  }
  struct ranks again = *ranks;
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    OK(ncclCommSplit(ranks->comms[i], 0, ranks->first + i, &again.comms[i], NULL));
  }
  OK(ncclGroupEnd());
  check_all_reduce(&again);
  destroy(&again);
  destroy(ranks);
}

/* ---- Without blocking, and its end */

static void wait_for(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  for (double end = now_s() + 30; state == ncclInProgress && now_s() < end; usleep(1000)) {
    OK(ncclCommGetAsyncError(comm, &state));
  }
  CHECK(state == ncclSuccess);
}

void test_non_blocking(struct ranks* ranks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    if (ranks->first + i == 0) usleep(50000);
    OK(ncclCommInitRankConfig(&ranks->comms[i], ranks->count, ranks->id, ranks->first + i, &config));
    CHECK(ranks->comms[i] != NULL);
  }
  GIVES(ncclInProgress, ncclGroupEnd());
  for (int i = 0; i < ranks->local; ++i) wait_for(ranks->comms[i]);
  check_all_reduce(ranks);
  struct ranks same = *ranks;
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    OK(ncclCommSplit(ranks->comms[i], 0, ranks->first + i, &same.comms[i], NULL));
  }
  GIVES(ncclInProgress, ncclGroupEnd());
  for (int i = 0; i < ranks->local; ++i) wait_for(ranks->comms[i]);
  for (int i = 0; i < ranks->local; ++i) wait_for(same.comms[i]);
  check_all_reduce(&same);
  for (int i = 0; i < ranks->local; ++i) GIVES(ncclInProgress, ncclCommFinalize(same.comms[i]));
  for (int i = 0; i < ranks->local; ++i) wait_for(same.comms[i]);
  destroy(&same);
  destroy(ranks);
}

void test_finalize(struct ranks* ranks) {
  init(ranks);
  check_all_reduce(ranks);
  for (int i = 0; i < ranks->local; ++i) {
    OK(ncclCommFinalize(ranks->comms[i]));
    CHECK(ncclCommFinalize(ranks->comms[i]) != ncclSuccess);
  }
  destroy(ranks);
}

static void* abort_soon(void* comm) {
  usleep(200000);
  OK(ncclCommAbort(comm));
  return NULL;
}

/* Rank 0 waits for what nobody sends, until a thread of its own aborts it. The others go on until they need it; those
 * of one GPU end together. */
void test_abort(struct ranks* ranks) {
  init(ranks);
  check_all_reduce(ranks);
  double begin = now_s();
  long* value = memory_get(sizeof *value);
  if (ranks->first == 0) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, abort_soon, ranks->comms[0]) == 0);
    ncclResult_t result = ncclRecv(value, 1, ncclInt64, 1, ranks->comms[0], ranks->streams[0]);
    stream_wait(ranks->streams[0]);
    CHECK(memory_is_of_device() || result == ncclRemoteError);
    CHECK(pthread_join(thread, NULL) == 0);
    GIVES(ncclInvalidArgument, ncclCommAbort(ranks->comms[0]));
    CHECK(now_s() - begin < 5);
  } else {
    usleep(600000);
    ncclResult_t state = ncclInternalError;
    if (!memory_is_of_device()) {
      check_messages(ranks);
      OK(ncclCommGetAsyncError(ranks->comms[0], &state));
      CHECK(state == ncclSuccess);
    }
    state = ncclAllReduce(value, value, 1, ncclInt64, ncclSum, ranks->comms[0], ranks->streams[0]);
    stream_wait(ranks->streams[0]);
    for (double end = now_s() + 10; state == ncclSuccess && now_s() < end; usleep(1000)) {
      OK(ncclCommGetAsyncError(ranks->comms[0], &state));
    }
    CHECK(state == ncclRemoteError);
    SAYS(memory_is_of_device() ? "another rank on this GPU has failed, or has left"
                               : "rank 0 has left the communicator");
    OK(ncclCommAbort(ranks->comms[0]));
  }
  memory_put(value);
}

/* ---- Ways to begin */

/* Configs of other versions are read as far as they go. */
void test_configs(struct ranks* ranks) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = NULL;
  config.magic = 1;
  GIVES(ncclInvalidArgument, ncclCommInitRankConfig(&comm, ranks->count, ranks->id, ranks->first, &config));
  SAYS("NCCL_CONFIG_INITIALIZER");
  meet(ranks); /* the sentence is of whichever thread failed last */
  config = (ncclConfig_t)NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  GIVES(ncclInvalidArgument, ncclCommInitRankConfig(&comm, ranks->count, ranks->id, ranks->first, &config));
  config.size = offsetof(ncclConfig_t, blocking); /* of a version that has no such field */
  ncclUniqueId ids[2] = {ranks->id, ranks->id};
  GIVES(ncclInvalidArgument, ncclCommInitRankScalable(&comm, ranks->count, ranks->first, 0, ids, &config));
  OK(ncclCommInitRankScalable(&ranks->comms[0], ranks->count, ranks->first, 2, ids, &config));
  check_all_reduce(ranks);
  destroy(ranks);
}

/* One thread, one call, several ranks of one device. */
void test_init_all(void) {
  enum { kRanks = 3 };
  static const int same_device[kRanks] = {0, 0, 0};
  struct ranks ranks = {.count = kRanks, .local = kRanks};
  memory_begin();
  memory_begin_thread();
  for (int i = 0; i < kRanks; ++i) ranks.streams[i] = stream_new();
  GIVES(ncclInvalidArgument, ncclCommInitAll(NULL, kRanks, same_device));
  GIVES(ncclInvalidArgument, ncclCommInitAll(ranks.comms, 0, same_device));
  OK(ncclCommInitAll(ranks.comms, kRanks, same_device));
  test_queries(&ranks);
  check_all_reduce(&ranks);
  for (int i = 0; i < kRanks; ++i) OK(ncclCommFinalize(ranks.comms[i]));
  for (int i = 0; i < kRanks; ++i) OK(ncclCommDestroy(ranks.comms[i]));
}
