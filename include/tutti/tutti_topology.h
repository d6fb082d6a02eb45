/* Read-only views of what tutti knows and decides, for tools: the machine, the ranks, the plan. Part of the C API.
 *
 * Functions that give text set *text to a NUL-terminated UTF-8 string that the caller frees with tutti_text_free(). */
#ifndef TUTTI_TUTTI_TOPOLOGY_H
#define TUTTI_TUTTI_TOPOLOGY_H

#include "tutti/tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef TUTTI_ENUM(tutti_format) {
  TUTTI_FORMAT_TREE = 0, /* for people */
  TUTTI_FORMAT_JSON = 1  /* for programs; the schema is in docs/topology.md */
} tutti_format_t;

TUTTI_API void tutti_text_free(char* text);

/* All options with their defaults, meaning and current value, one per line. */
TUTTI_API tutti_status_t tutti_options_text(char** text);

/* The facts of this host (an Inventory). Reads the live machine. Does not block on other ranks. */
TUTTI_API tutti_status_t tutti_inventory_text(tutti_format_t format, char** text);

/* The Topology of `nranks` ranks on this host, as a communicator of them would see it; with `topology_file` the
 * Topology, recorded Inventory or topology of NCCL in that file instead (nranks = 0: as many as the file has). Errors
 * name the file, line and reason. */
TUTTI_API tutti_status_t tutti_topology_text(const char* topology_file, int nranks, tutti_format_t format, char** text);

/* Where ranks sit that no file describes. */
typedef TUTTI_ENUM(tutti_rank_place) {
  TUTTI_RANKS_USUAL = 0, /* on GPUs where the file is NCCL's, else in the host's memory */
  TUTTI_RANKS_ON_HOST = 1,
  TUTTI_RANKS_ON_GPUS = 2 /* local rank i on GPU i, and on the first again where there are fewer GPUs */
} tutti_rank_place_t;

/* Ranks to look at or plan for without a communicator of them. All zero but struct_size: one rank on this host. */
typedef struct tutti_topology_query {
  size_t struct_size;
  const char* topology_file; /* NULL: this host */
  int32_t nranks;            /* 0: as many as the file has; where it has none, one for each GPU, or one */
  int32_t hosts;             /* so many hosts like the one of the file; 0: one */
  tutti_rank_place_t place;
} tutti_topology_query_t;

/* The same for such a query. Errors as there; a Topology that says itself what the query says otherwise. */
TUTTI_API tutti_status_t tutti_topology_query_text(const tutti_topology_query_t* query, tutti_format_t format,
                                                   char** text);

/* Records this host in a file that stands in for it anywhere as a `topology_file`: `path` is replaced if it exists.
 * Does not block. The file holds host and interface names, addresses and hardware facts. */
TUTTI_API tutti_status_t tutti_topology_capture(const char* path);

/* What keeps this host's network hardware from working, or from working well: each finding says what is so and what to
 * do. `machine_file`: of the host recorded there by tutti_topology_capture(); NULL: this one. `problems` may be NULL;
 * else it gets how many findings are more than notes. Does not block. Errors name the file, line and reason. */
TUTTI_API tutti_status_t tutti_diagnosis_text(const char* machine_file, tutti_format_t format, char** text,
                                              int32_t* problems);

/* Measures what copies, reductions, wake-ups and messages cost on this host and stores the figures for all later
 * communicators (option "calibration"). Blocks for about a second, in a process that others do not disturb; waits
 * for another process that calibrates, whose figures it takes, for at most 30 s, or half of bootstrap_timeout_ms if
 * that is less. `text` may be NULL; else it gets the host's facts with the figures. Errors: TUTTI_INVALID_USAGE when
 * the option is "off", TUTTI_SYSTEM_ERROR when the file cannot be written, TUTTI_TIMEOUT when the other process has
 * not finished. */
TUTTI_API tutti_status_t tutti_calibrate(tutti_format_t format, char** text);

/* The same when no figures are stored for this host; nothing when the option "calibration" is "off". The `tutti`
 * command calls it before it uses the figures. Communicators never measure: other ranks would wait. Processes of one
 * host that call it at once share one measurement. `*note` is one sentence for the user (measured and stored, or why
 * not, and default figures are used), "" when there was nothing to do. Errors: the option names a file that cannot be
 * used. */
TUTTI_API tutti_status_t tutti_calibrate_if_missing(char** note);

/* The Topology that all ranks of `comm` agreed on. */
TUTTI_API tutti_status_t tutti_comm_topology_text(const tutti_comm_t* comm, tutti_format_t format, char** text);

/* What a communicator would run for a call. */
typedef struct tutti_plan_query {
  size_t struct_size;
  tutti_collective_t collective;
  tutti_datatype_t datatype;
  tutti_op_t op;
  uint64_t count;            /* as in tutti_call_t; of the forms with counts: of each block, on average */
  int32_t nranks;            /* 0: as many as the topology has */
  const char* topology_file; /* NULL: this host */
  const char* algorithm;     /* NULL: the planner chooses */
  int32_t explain;           /* 1: the rejected candidates too, with predicted times and reasons */
  int32_t steps;             /* 1: the steps of every rank */
  int32_t root;              /* where the collective has one */
  int32_t hosts;             /* as in tutti_topology_query_t */
  tutti_rank_place_t place;
} tutti_plan_query_t;

/* The choice, its predicted time and the reason. Options of the environment (algorithm, channels, slice_bytes,
 * transport) count as for a communicator. Blocks at most for reading files. Errors: unknown names suggest the nearest;
 * an algorithm that cannot run here says why. */
TUTTI_API tutti_status_t tutti_plan_text(const tutti_plan_query_t* query, tutti_format_t format, char** text);

/* Whether the Plan in the file `path` (docs/plans.md) is right: it is parsed, validated, and checked on symbolic values
 * with every permission that it claims. On success *text describes it for people, with `steps` 1 step by step. Errors
 * name the file, line and reason, or the rank and step that is wrong. */
TUTTI_API tutti_status_t tutti_plan_check_file(const char* path, int steps, char** text);

/* What `comm` runs for a call, whose buffers are not looked at: on a stream, they are taken for device memory. It is
 * filled in; strings have static or communicator lifetime. */
typedef struct tutti_plan_info {
  size_t struct_size;
  const char* algorithm;      /* "direct_two_shot", "ring", ...; "fused": one launch on a GPU */
  const char* transport;      /* "shm", "tcp", "verbs", "loopback", "shm+tcp"; "gpu". What carries data now: "tcp" of
                               * ranks that have lost their last RDMA device */
  int32_t channels;
  uint64_t predicted_ns;      /* 0: not predicted */
  const char* candidates;     /* all algorithms that could run it: "direct_two_shot ring" */
} tutti_plan_info_t;

TUTTI_API tutti_status_t tutti_comm_plan_info(tutti_comm_t* comm, const tutti_call_t* call, tutti_plan_info_t* info);

/* One line of a tuning: which algorithm is the fastest for calls of `collective` whose size class (the size of the
 * vector, or of all ranks' blocks together, rounded up to a power of two, 64 at least) is at most `up_to_bytes`, and
 * larger than that of the line before. */
typedef struct tutti_tuned {
  tutti_collective_t collective; /* without counts; also serves the form with counts */
  uint64_t up_to_bytes;          /* ascends from line to line of a collective */
  const char* algorithm;         /* NULL: what the planner predicts to be the fastest */
} tutti_tuned_t;

/* Stores measurements, for communicators that have as many ranks and hosts as `comm`, on such machines and over the
 * same transports. Without a `path` (NULL) they use it from now on, wherever the option "tuning" is empty; else where
 * it names that file. One rank calls it. Blocks for writing the file; if it exists and is for
 * the same ranks, what it says of collectives that no line has stays, else it is replaced. `stored` may be NULL; else
 * it gets the file's path. Errors: lines that do not ascend; an algorithm that the collective does not have;
 * a communicator of one rank; the file cannot be written. */
TUTTI_API tutti_status_t tutti_comm_store_tuning(const tutti_comm_t* comm, const tutti_tuned_t* lines, size_t count,
                                                 const char* path, char** stored);

#ifdef __cplusplus
}
#endif

#endif
