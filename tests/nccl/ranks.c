#include "nccl/ranks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl/check.h"
#include "nccl/memory.h"

struct rank_thread {
  struct ranks ranks;
  void (*body)(struct ranks*);
};

static void* run_thread(void* argument) {
  struct rank_thread* thread = argument;
  memory_begin_thread();
  for (int i = 0; i < thread->ranks.local; ++i) thread->ranks.streams[i] = stream_new();
  thread->body(&thread->ranks);
  return NULL;
}

static void run_threads(struct rank_thread* threads, int count) {
  pthread_t handles[kMostRanks];
  memory_begin();
  for (int i = 0; i < count; ++i) CHECK(pthread_create(&handles[i], NULL, run_thread, &threads[i]) == 0);
  for (int i = 0; i < count; ++i) CHECK(pthread_join(handles[i], NULL) == 0);
}

/* What all processes see. */
struct common {
  atomic_int have_met; /* ranks so far */
  atomic_int has_id;
  ncclUniqueId id;
};
static struct common* common;

/* The id comes when all are forked: who makes it has threads, and a fork may take away what these have locked. */
static void run_processes(struct rank_thread* threads, int count) {
  pid_t children[kMostRanks], parent = getpid();
  for (int i = 0; i < count; ++i) {
    children[i] = fork();
    CHECK(children[i] >= 0);
    if (children[i] > 0) continue;
    for (; !atomic_load(&common->has_id); usleep(1000)) CHECK(getppid() == parent);
    threads[i].ranks.id = common->id;
    memory_begin();
    run_thread(&threads[i]);
    _exit(0);
  }
  OK(ncclGetUniqueId(&common->id));
  atomic_store(&common->has_id, 1);
  for (int i = 0; i < count; ++i) {
    int status = 0;
    CHECK(waitpid(children[i], &status, 0) == children[i]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

void meet(struct ranks* ranks) {
  int here = atomic_fetch_add(&common->have_met, ranks->local) + ranks->local;
  int all = (here + ranks->count - 1) / ranks->count * ranks->count;
  while (atomic_load(&common->have_met) < all) usleep(1000);
}

void with_id(enum ranks_are how, int count, void (*body)(struct ranks*)) {
  common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(common != MAP_FAILED);
  ncclUniqueId id = {{0}};
  if (how != kProcesses) OK(ncclGetUniqueId(&id));
  struct rank_thread threads[kMostRanks];
  int parts = how == kOneThread ? 1 : count;
  for (int i = 0; i < parts; ++i) {
    threads[i] = (struct rank_thread){.ranks = {.count = count, .first = i, .local = count / parts, .id = id}};
    threads[i].body = body;
  }
  if (how == kProcesses) {
    run_processes(threads, count);
  } else {
    run_threads(threads, parts);
  }
}

static void (*body_of_all)(struct ranks*); /* set before there are threads */

static void run_with_communicator(struct ranks* ranks) {
  OK(ncclGroupStart());
  for (int i = 0; i < ranks->local; ++i) {
    OK(ncclCommInitRank(&ranks->comms[i], ranks->count, ranks->id, ranks->first + i));
  }
  OK(ncclGroupEnd());
  body_of_all(ranks);
  for (int i = 0; i < ranks->local; ++i) OK(ncclCommDestroy(ranks->comms[i]));
}

void with_communicator(enum ranks_are how, int count, void (*body)(struct ranks*)) {
  body_of_all = body;
  with_id(how, count, run_with_communicator);
}

void wait_for_streams(struct ranks* ranks) {
  for (int i = 0; i < ranks->local; ++i) stream_wait(ranks->streams[i]);
}
