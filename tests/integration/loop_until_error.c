/* A rank that all-reduces until a call fails: loop_until_error BYTES [malloc|tutti] [CALLS] [child]. Prints "running"
 * after the first call and, once a call has failed, its sentence. After CALLS calls it leaves, with a negative number
 * never. With "child" it forks after the first call, and prints "child PID" before. Exit status: 3 after a failed call
 * or when leaving failed, 2 when it could not start, 0 when it could leave. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

/* A process that holds what this one has open, but for its input and output. */
static void leave_child(void) {
  pid_t child = fork();
  if (child != 0) {
    printf("child %d\n", (int)child);
    return;
  }
  for (int standard = 0; standard <= 2; ++standard) close(standard);
  alarm(60); /* should nobody end it */
  for (;;) pause();
}

int main(int argc, char** argv) {
  tutti_comm_t* comm = NULL;
  if (tutti_comm_init_from_environment(&comm, NULL) != TUTTI_SUCCESS) {
    fprintf(stderr, "%s\n", tutti_last_error(NULL));
    return 2;
  }
  size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 8;
  int most_calls = argc > 3 ? atoi(argv[3]) : -1;
  int shared = argc > 2 && strcmp(argv[2], "tutti") == 0;
  void* buffer = NULL;
  if (shared) {
    tutti_mem_alloc(&buffer, bytes);
  } else {
    buffer = calloc(1, bytes);
  }
  if (buffer == NULL) {
    fprintf(stderr, "cannot allocate %zu bytes\n", bytes);
    return 2;
  }

  tutti_status_t status = TUTTI_SUCCESS;
  for (int calls = 0; status == TUTTI_SUCCESS && calls != most_calls; ++calls) {
    status = tutti_all_reduce(buffer, buffer, bytes, TUTTI_UINT8, TUTTI_MAX, comm, NULL);
    if (calls == 0 && status == TUTTI_SUCCESS) {
      if (argc > 4) leave_child();
      puts("running");
      fflush(stdout);
    }
  }
  if (status == TUTTI_SUCCESS) status = tutti_comm_finalize(comm);
  if (status != TUTTI_SUCCESS) fprintf(stderr, "%s\n", tutti_last_error(comm));
  tutti_comm_destroy(comm);
  if (shared) {
    tutti_mem_free(buffer);
  } else {
    free(buffer);
  }
  return status == TUTTI_SUCCESS ? 0 : 3;
}
