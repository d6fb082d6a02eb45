/* A program of NCCL's: `nccl_program PART [threads | processes | one_thread]`. */
#include "nccl/bodies.h"
#include "nccl/check.h"

struct part {
  const char* name;
  void (*with_communicator)(struct ranks*); /* one of the two, or of the third */
  void (*with_id)(struct ranks*);
  void (*alone)(void);
  int ranks;
};

static const struct part parts[] = {
    {"collectives", test_collectives, NULL, NULL, 4},
    {"group_of_calls", test_group_of_calls, NULL, NULL, 3},
    {"messages", test_messages, NULL, NULL, 3},
    {"multiplied_sums", test_multiplied_sums, NULL, NULL, 3},
    {"queries", test_queries, NULL, NULL, 3},
    {"split", test_split, NULL, NULL, 5},
    {"memory", test_memory, NULL, NULL, 2},
    {"simulation", test_simulation, NULL, NULL, 2},
    {"refused", test_refused, NULL, NULL, 2},
    {"shrink", NULL, test_shrink, NULL, 3},
    {"shrink_after_death", NULL, test_shrink_after_death, NULL, 3},
    {"revoke", NULL, test_revoke, NULL, 3},
    {"non_blocking", NULL, test_non_blocking, NULL, 3},
    {"finalize", NULL, test_finalize, NULL, 3},
    {"abort", NULL, test_abort, NULL, 3},
    {"configs", NULL, test_configs, NULL, 2},
    {"init_all", NULL, NULL, test_init_all, 0},
    {"host_memory_is_refused", NULL, NULL, test_host_memory_is_refused, 0},
};

int main(int argc, char** argv) {
  CHECK(argc == 2 || argc == 3);
  const char* kind = argc == 3 ? argv[2] : "threads";
  enum ranks_are how = kOneThread;
  if (strcmp(kind, "processes") == 0) how = kProcesses;
  if (strcmp(kind, "threads") == 0) how = kThreads;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    const struct part* part = &parts[i];
    if (strcmp(part->name, argv[1]) != 0) continue;
    if (part->with_communicator != NULL) {
      with_communicator(how, part->ranks, part->with_communicator);
    } else if (part->with_id != NULL) {
      with_id(how, part->ranks, part->with_id);
    } else {
      part->alone();
    }
    printf("%s %s: as NCCL has it\n", part->name, kind);
    return 0;
  }
  fprintf(stderr, "there is no part %s\n", argv[1]);
  return 1;
}
