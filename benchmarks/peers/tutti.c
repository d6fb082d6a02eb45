/* tutti under `tutti run`. An argument before run_loop()'s: where buffers come from, `malloc`, `tutti` or `registered`:
 * from malloc, whatever address that gives, and registered. */
#include "tutti/tutti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"

static void require(tutti_status_t status, const tutti_comm_t* comm) {
  if (status == TUTTI_SUCCESS) return;
  fprintf(stderr, "tutti: %s\n", tutti_last_error(comm));
  exit(1);
}

static void all_reduce(const struct peer* peer, const float* in, float* out, size_t count) {
  tutti_comm_t* comm = peer->state;
  require(tutti_all_reduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), comm);
}

static void reduce_scatter(const struct peer* peer, const float* in, float* out, size_t count) {
  tutti_comm_t* comm = peer->state;
  require(tutti_reduce_scatter(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm, NULL), comm);
}

static void all_gather(const struct peer* peer, const float* in, float* out, size_t count) {
  tutti_comm_t* comm = peer->state;
  require(tutti_all_gather(in, out, count, TUTTI_FLOAT32, comm, NULL), comm);
}

static void broadcast(const struct peer* peer, const float* in, float* out, size_t count) {
  tutti_comm_t* comm = peer->state;
  require(tutti_broadcast(in, peer->rank == 0 ? (float*)in : out, count, TUTTI_FLOAT32, 0, comm, NULL), comm);
}

static void all_to_all(const struct peer* peer, const float* in, float* out, size_t count) {
  tutti_comm_t* comm = peer->state;
  require(tutti_all_to_all(in, out, count, TUTTI_FLOAT32, comm, NULL), comm);
}

static void send_recv(const struct peer* peer, const float* in, float* out, size_t count) {
  tutti_comm_t* comm = peer->state;
  int other = 1 - peer->rank;
  if (peer->rank == 0) require(tutti_send(in, count, TUTTI_FLOAT32, other, 0, comm, NULL), comm);
  require(tutti_recv(out, count, TUTTI_FLOAT32, other, 0, comm, NULL, NULL), comm);
  if (peer->rank == 1) require(tutti_send(in, count, TUTTI_FLOAT32, other, 0, comm, NULL), comm);
}

static void* allocate(const struct peer* peer, size_t bytes) {
  (void)peer;
  void* memory = NULL;
  return tutti_mem_alloc(&memory, bytes) == TUTTI_SUCCESS ? memory : NULL;
}

static void* allocate_registered(const struct peer* peer, size_t bytes) {
  void* handle = NULL;
  void* memory = malloc(bytes);
  if (memory) require(tutti_comm_register(peer->state, memory, bytes, &handle), peer->state);
  return memory;
}

int main(int argc, char** argv) {
  const char* kind = argc >= 2 ? argv[1] : "";
  int registers = strcmp(kind, "registered") == 0;
  int own_memory = strcmp(kind, "tutti") == 0;
  if (!registers && !own_memory && strcmp(kind, "malloc") != 0) {
    fprintf(stderr, "usage: %s malloc|tutti|registered COLLECTIVE SECONDS BYTES...\n", argv[0]);
    return 2;
  }
  tutti_comm_t* comm = NULL;
  require(tutti_comm_init_from_environment(&comm, NULL), NULL);
  struct peer peer = {.state = comm,
                      .calls = {[kAllReduce] = all_reduce,
                                [kReduceScatter] = reduce_scatter,
                                [kAllGather] = all_gather,
                                [kBroadcast] = broadcast,
                                [kAllToAll] = all_to_all,
                                [kSendRecv] = send_recv},
                      .allocate = registers ? allocate_registered : own_memory ? allocate : NULL};
  require(tutti_comm_rank(comm, &peer.rank), comm);
  require(tutti_comm_size(comm, &peer.size), comm);
  int status = run_loop(&peer, argc - 1, argv + 1);
  require(tutti_comm_destroy(comm), NULL);
  return status;
}
