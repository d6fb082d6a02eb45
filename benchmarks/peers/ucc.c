/* UCC with its default layers: those over UCX. Arguments before run_loop()'s: rank, size, and an empty folder in which
 * the ranks meet. */
#define _GNU_SOURCE
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucc/api/ucc.h>
#include <unistd.h>

#include "loop.h"

struct state {
  int rank;
  int size;
  int crowded; /* more ranks than cores: then waiting gives the core away, as a patient program would */
  const char* folder;
  int meetings;
  ucc_context_h context;
  ucc_team_h team;
};

static void require(ucc_status_t status, const char* what) {
  if (status == UCC_OK) return;
  fprintf(stderr, "ucc: %s: %s\n", what, ucc_status_string(status));
  exit(1);
}

/* ---- How ranks meet: one file for each rank and each exchange ------------------------------------------------ */

struct meeting {
  struct state* state;
  int number;
  char* all;
  size_t size;
  int next; /* the first rank whose file was not read */
};

static void file_name(char* name, const struct meeting* meeting, int rank, const char* suffix) {
  snprintf(name, PATH_MAX, "%s/%d.%d%s", meeting->state->folder, meeting->number, rank, suffix);
}

static ucc_status_t begin_meeting(void* mine, void* all, size_t size, void* state, void** request) {
  struct meeting* meeting = malloc(sizeof *meeting);
  if (!meeting) return UCC_ERR_NO_MEMORY;
  *meeting = (struct meeting){state, ((struct state*)state)->meetings++, all, size, 0};
  char unfinished[PATH_MAX], name[PATH_MAX];
  file_name(unfinished, meeting, meeting->state->rank, ".new");
  file_name(name, meeting, meeting->state->rank, "");
  *request = meeting;
  FILE* file = fopen(unfinished, "wb");
  if (!file) return UCC_ERR_NO_RESOURCE;
  size_t written = fwrite(mine, 1, size, file);
  int complete = fclose(file) == 0 && written == size && rename(unfinished, name) == 0;
  return complete ? UCC_OK : UCC_ERR_NO_RESOURCE;
}

static ucc_status_t test_meeting(void* request) {
  struct meeting* meeting = request;
  for (; meeting->next < meeting->state->size; ++meeting->next) {
    char name[PATH_MAX];
    file_name(name, meeting, meeting->next, "");
    FILE* file = fopen(name, "rb");
    if (!file) return UCC_INPROGRESS;
    size_t got = fread(meeting->all + (size_t)meeting->next * meeting->size, 1, meeting->size, file);
    fclose(file);
    if (got != meeting->size) return UCC_ERR_NO_MESSAGE;
  }
  return UCC_OK;
}

static ucc_status_t end_meeting(void* request) {
  free(request);
  return UCC_OK;
}

/* ---- Calls -------------------------------------------------------------------------------------------------- */

static void run(const struct peer* peer, ucc_coll_args_t* args) {
  struct state* state = peer->state;
  ucc_coll_req_h request;
  require(ucc_collective_init(args, &request, state->team), "ucc_collective_init");
  require(ucc_collective_post(request), "ucc_collective_post");
  ucc_status_t status;
  while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
    ucc_context_progress(state->context);
    if (state->crowded) sched_yield();
  }
  require(status, "ucc_collective_test");
  require(ucc_collective_finalize(request), "ucc_collective_finalize");
}

static ucc_coll_buffer_info_t buffer(const float* memory, size_t count) {
  return (ucc_coll_buffer_info_t){(void*)memory, count, UCC_DT_FLOAT32, UCC_MEMORY_TYPE_HOST};
}

static void all_reduce(const struct peer* peer, const float* in, float* out, size_t count) {
  run(peer, &(ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLREDUCE,
                               .src.info = buffer(in, count),
                               .dst.info = buffer(out, count),
                               .op = UCC_OP_SUM});
}

static void reduce_scatter(const struct peer* peer, const float* in, float* out, size_t count) {
  run(peer, &(ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_REDUCE_SCATTER,
                               .src.info = buffer(in, count * (size_t)peer->size),
                               .dst.info = buffer(out, count),
                               .op = UCC_OP_SUM});
}

static void all_gather(const struct peer* peer, const float* in, float* out, size_t count) {
  run(peer, &(ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLGATHER,
                               .src.info = buffer(in, count),
                               .dst.info = buffer(out, count * (size_t)peer->size)});
}

static void broadcast(const struct peer* peer, const float* in, float* out, size_t count) {
  run(peer, &(ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_BCAST,
                               .src.info = buffer(peer->rank == 0 ? in : out, count),
                               .root = 0});
}

static void all_to_all(const struct peer* peer, const float* in, float* out, size_t count) {
  run(peer, &(ucc_coll_args_t){.coll_type = UCC_COLL_TYPE_ALLTOALL,
                               .src.info = buffer(in, count * (size_t)peer->size),
                               .dst.info = buffer(out, count * (size_t)peer->size)});
}

/* ---- Set-up ------------------------------------------------------------------------------------------------- */

static ucc_lib_h open_library(void) {
  ucc_lib_config_h config;
  require(ucc_lib_config_read(NULL, NULL, &config), "ucc_lib_config_read");
  ucc_lib_params_t params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE, .thread_mode = UCC_THREAD_SINGLE};
  ucc_lib_h library;
  require(ucc_init(&params, config, &library), "ucc_init");
  ucc_lib_config_release(config);
  return library;
}

static void connect_ranks(struct state* state, ucc_lib_h library) {
  ucc_oob_coll_t meetings = {begin_meeting, test_meeting, end_meeting, state, (uint32_t)state->size,
                             (uint32_t)state->rank};
  ucc_context_config_h config;
  require(ucc_context_config_read(library, NULL, &config), "ucc_context_config_read");
  ucc_context_params_t context = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB, .oob = meetings};
  require(ucc_context_create(library, &context, config, &state->context), "ucc_context_create");
  ucc_context_config_release(config);
  ucc_team_params_t team = {.mask = UCC_TEAM_PARAM_FIELD_OOB, .oob = meetings};
  require(ucc_team_create_post(&state->context, 1, &team, &state->team), "ucc_team_create_post");
  ucc_status_t status;
  while ((status = ucc_team_create_test(state->team)) == UCC_INPROGRESS) {
    ucc_context_progress(state->context);
    sched_yield();
  }
  require(status, "ucc_team_create_test");
}

static void disconnect(struct state* state) {
  ucc_status_t status;
  while ((status = ucc_team_destroy(state->team)) == UCC_INPROGRESS) ucc_context_progress(state->context);
  require(status, "ucc_team_destroy");
  require(ucc_context_destroy(state->context), "ucc_context_destroy");
}

int main(int argc, char** argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: %s RANK SIZE FOLDER COLLECTIVE SECONDS BYTES...\n", argv[0]);
    return 2;
  }
  struct state state = {.rank = atoi(argv[1]), .size = atoi(argv[2]), .folder = argv[3]};
  cpu_set_t cores;
  state.crowded = sched_getaffinity(0, sizeof cores, &cores) == 0 && state.size > CPU_COUNT(&cores);
  ucc_lib_h library = open_library();
  connect_ranks(&state, library);
  struct peer peer = {.rank = state.rank,
                      .size = state.size,
                      .state = &state,
                      .calls = {[kAllReduce] = all_reduce,
                                [kReduceScatter] = reduce_scatter,
                                [kAllGather] = all_gather,
                                [kBroadcast] = broadcast,
                                [kAllToAll] = all_to_all}};
  int status = run_loop(&peer, argc - 3, argv + 3);
  disconnect(&state);
  require(ucc_finalize(library), "ucc_finalize");
  return status;
}
