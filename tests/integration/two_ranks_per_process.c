/* Four ranks in two processes of two threads each, so that every rank has peers in its own process and in another one:
 * two_ranks_per_process COUNT... sums COUNT floats in memory of tutti_mem_alloc(), for each COUNT twice, in memory that
 * is allocated anew. Exit status 0: all sums are right. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tutti/tutti.h>
#include <unistd.h>

enum { kRanks = 4 };

typedef struct {
  tutti_unique_id_t id;
  int rank;
  int counts;
  char** count_texts;
} Member;

static void check(tutti_status_t status, const tutti_comm_t* comm, int rank) {
  if (status == TUTTI_SUCCESS) return;
  fprintf(stderr, "rank %d: %s\n", rank, tutti_last_error(comm));
  exit(2);
}

static float value(int rank, size_t i) { return (float)(rank + (int)(i % 1000)); }

static void sum_once(tutti_comm_t* comm, int rank, size_t count) {
  void *in = NULL, *out = NULL;
  check(tutti_mem_alloc(&in, count * sizeof(float)), NULL, rank);
  check(tutti_mem_alloc(&out, count * sizeof(float)), NULL, rank);
  for (size_t i = 0; i < count; ++i) ((float*)in)[i] = value(rank, i);
  check(tutti_all_reduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), comm, rank);
  for (size_t i = 0; i < count; ++i) {
    float want = 0;
    for (int r = 0; r < kRanks; ++r) want += value(r, i);
    if (((float*)out)[i] == want) continue;
    fprintf(stderr, "rank %d: element %zu of %zu is %g and should be %g\n", rank, i, count, ((float*)out)[i], want);
    exit(1);
  }
  tutti_mem_free(in);
  tutti_mem_free(out);
}

static void* run(void* argument) {
  const Member* member = argument;
  tutti_comm_t* comm = NULL;
  check(tutti_comm_init_rank(&comm, kRanks, &member->id, member->rank), NULL, member->rank);
  for (int i = 0; i < 2 * member->counts; ++i) {
    sum_once(comm, member->rank, strtoull(member->count_texts[i / 2], NULL, 10));
  }
  check(tutti_comm_destroy(comm), NULL, member->rank);
  return NULL;
}

/* Ranks r and r + 2 of the process with rank r. */
static void run_two(const tutti_unique_id_t* id, int first, int counts, char** count_texts) {
  pthread_t threads[2];
  Member members[2];
  for (int i = 0; i < 2; ++i) {
    members[i] = (Member){*id, first + 2 * i, counts, count_texts};
    if (pthread_create(&threads[i], NULL, run, &members[i]) != 0) exit(2);
  }
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
}

/* The other process gets the id through a pipe: a process that has threads may not just go on after a fork. */
int main(int argc, char** argv) {
  tutti_unique_id_t id;
  if (argc > 1 && strcmp(argv[1], "--second") == 0) {
    if (read(STDIN_FILENO, &id, sizeof id) != sizeof id) return 2;
    run_two(&id, 1, argc - 2, argv + 2);
    return 0;
  }
  int ends[2];
  if (pipe(ends) != 0) return 2;
  pid_t other = fork();
  if (other == 0) {
    char** arguments = calloc((size_t)argc + 2, sizeof *arguments);
    arguments[0] = argv[0];
    arguments[1] = "--second";
    memcpy(arguments + 2, argv + 1, ((size_t)argc - 1) * sizeof *arguments);
    dup2(ends[0], STDIN_FILENO);
    close(ends[1]);
    execv(argv[0], arguments);
    _exit(2);
  }
  check(tutti_get_unique_id(&id), NULL, 0);
  if (write(ends[1], &id, sizeof id) != sizeof id) return 2;
  run_two(&id, 0, argc - 1, argv + 1);
  int status = 0;
  if (waitpid(other, &status, 0) != other) return 2;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
