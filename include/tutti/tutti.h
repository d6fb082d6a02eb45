/* tutti: collective communication for N ranks. This is the whole C API (C11).
 *
 * Conventions
 *   - Argument order and enumerator values are NCCL's; names are snake_case, so a port is a rename.
 *   - Every function returns a tutti_status_t unless it says otherwise. TUTTI_SUCCESS is 0.
 *     After a failure tutti_last_error() has the whole sentence: what happened, where, and the remedy.
 *   - Counts are elements. Sizes are bytes. Times are milliseconds.
 *   - "Blocks" means: may wait for other ranks. Every such wait has a deadline (option "timeout_ms").
 *   - In a forked child the parent's communicators, requests and operations are of no use: every call on them is
 *     refused. The child may make communicators of its own, or run another program.
 *   - Handles are opaque. The calls of a communicator, and the waits and tests of their requests, may be made by
 *     several threads at once, each request by one; tutti_comm_abort() and tutti_comm_status() by any thread at any
 *     time; all else by one thread at a time, while no other uses the communicator.
 *   - A communicator that has failed stays failed. Its call's buffers are the caller's again, recv_buffer undefined.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/* A caller may pass any value and is told when it is a wrong one: in C++ too, an enumeration has to hold it. */
#if defined(__cplusplus)
#define TUTTI_ENUM(name) enum name : int
#else
#define TUTTI_ENUM(name) enum name
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0
/* Compares with tutti_version(): major * 10000 + minor * 100 + patch. */
#define TUTTI_VERSION (TUTTI_VERSION_MAJOR * 10000 + TUTTI_VERSION_MINOR * 100 + TUTTI_VERSION_PATCH)

/* ---- Status ------------------------------------------------------------------------------------------------- */

typedef TUTTI_ENUM(tutti_status) {
  TUTTI_SUCCESS = 0,
  TUTTI_CUDA_ERROR = 1,       /* a CUDA driver call failed */
  TUTTI_SYSTEM_ERROR = 2,     /* an operating-system call failed (memory, files, sockets) */
  TUTTI_INTERNAL_ERROR = 3,   /* a defect in tutti: please report the sentence */
  TUTTI_INVALID_ARGUMENT = 4, /* an argument is wrong on its own (null, out of range) */
  TUTTI_INVALID_USAGE = 5,    /* a call is wrong in its context (ranks differ, wrong environment, wrong order) */
  TUTTI_REMOTE_ERROR = 6,     /* another rank died, left or misbehaved */
  TUTTI_IN_PROGRESS = 7,      /* not an error: a non-blocking call has not finished */
  TUTTI_TIMEOUT = 8,          /* a deadline passed */
  TUTTI_ABORTED = 9           /* tutti_comm_abort() was called, here or on another rank */
} tutti_status_t;

/* The library's version as TUTTI_VERSION is computed. Never fails. */
TUTTI_API int tutti_version(void);

/* A short text such as "invalid argument"; static storage, never NULL, also for values that are no status. */
TUTTI_API const char* tutti_status_text(tutti_status_t status);

/* ---- Types and operations ----------------------------------------------------------------------------------- */

/* What is too large for an 8-bit float, infinite results included, becomes the largest finite value of its sign, as in
 * CUDA's conversions; NaN stays NaN. */
typedef TUTTI_ENUM(tutti_datatype) {
  TUTTI_INT8 = 0,
  TUTTI_UINT8 = 1,
  TUTTI_INT32 = 2,
  TUTTI_UINT32 = 3,
  TUTTI_INT64 = 4,
  TUTTI_UINT64 = 5,
  TUTTI_FLOAT16 = 6,
  TUTTI_FLOAT32 = 7,
  TUTTI_FLOAT64 = 8,
  TUTTI_BFLOAT16 = 9,
  TUTTI_FLOAT8_E4M3 = 10, /* CUDA's __nv_fp8_e4m3: no infinities, up to 448 */
  TUTTI_FLOAT8_E5M2 = 11  /* CUDA's __nv_fp8_e5m2: up to 57344 */
} tutti_datatype_t;

typedef TUTTI_ENUM(tutti_op) {
  TUTTI_SUM = 0,
  TUTTI_PROD = 1,
  TUTTI_MAX = 2, /* NaN if any input is NaN */
  TUTTI_MIN = 3, /* NaN if any input is NaN */
  TUTTI_AVG = 4, /* the sum divided by the number of ranks; integers truncate towards zero */
  /* Bitwise and, or and exclusive or: of integers only. */
  TUTTI_BAND = 5,
  TUTTI_BOR = 6,
  TUTTI_BXOR = 7
} tutti_op_t;

typedef TUTTI_ENUM(tutti_collective) {
  TUTTI_ALL_REDUCE = 0,
  TUTTI_REDUCE = 1,
  TUTTI_BROADCAST = 2,
  TUTTI_ALL_GATHER = 3,
  TUTTI_REDUCE_SCATTER = 4,
  TUTTI_ALL_TO_ALL = 5,
  TUTTI_GATHER = 6,
  TUTTI_SCATTER = 7,
  TUTTI_BARRIER = 8,
  TUTTI_ALL_GATHER_V = 9,
  TUTTI_REDUCE_SCATTER_V = 10,
  TUTTI_ALL_TO_ALL_V = 11,
  TUTTI_GATHER_V = 12,
  TUTTI_SCATTER_V = 13,
  TUTTI_SEND = 14, /* these two are no collectives, but calls that tutti_start() takes */
  TUTTI_RECV = 15
} tutti_collective_t;

/* Bytes of one element, 0 for a value that is no datatype. */
TUTTI_API size_t tutti_datatype_size(tutti_datatype_t datatype);

/* A cudaStream_t or CUstream, for calls on buffers of a GPU. Host buffers: NULL. */
typedef void* tutti_stream_t;

/* ---- Options ------------------------------------------------------------------------------------------------ */

/* Options of one communicator. Every option is also the environment variable TUTTI_<NAME IN CAPITALS>; a value set here
 * wins over the environment. docs/options.md and `tutti options` list all of them. */
typedef struct tutti_config tutti_config_t;

/* Makes a config that holds the environment's values. The caller owns it until tutti_config_destroy(). */
TUTTI_API tutti_status_t tutti_config_create(tutti_config_t** config);

/* Sets one option from text, for instance ("timeout_ms", "5000"). Errors: TUTTI_INVALID_ARGUMENT for an unknown name
 * (the sentence suggests the nearest one) or a value that does not parse. */
TUTTI_API tutti_status_t tutti_config_set(tutti_config_t* config, const char* name, const char* value);

/* Sets *value to the text of one option, which is the config's and holds until its next tutti_config_get() or its end.
 * Errors: TUTTI_INVALID_ARGUMENT for an unknown name. */
TUTTI_API tutti_status_t tutti_config_get(tutti_config_t* config, const char* name, const char** value);

/* NULL is allowed. */
TUTTI_API void tutti_config_destroy(tutti_config_t* config);

/* ---- Communicators ------------------------------------------------------------------------------------------ */

typedef struct tutti_comm tutti_comm_t;

/* Carries the meeting address and the job secret (32 random bytes): give it only to the ranks of the job, over a
 * channel that only they can read. */
typedef struct tutti_unique_id {
  uint8_t bytes[128];
} tutti_unique_id_t;

/* Makes a fresh id and starts the meeting point for it in this process: the process must live until every rank has
 * joined. An id is for one communicator: when this process has joined it, the meeting point ends. Does not block.
 * Errors: TUTTI_SYSTEM_ERROR when no socket can be opened. */
TUTTI_API tutti_status_t tutti_get_unique_id(tutti_unique_id_t* id);

/* Joins the communicator of `nranks` ranks named by `id` as `rank` (0 <= rank < nranks). Blocks until every rank has
 * joined or the deadline ("bootstrap_timeout_ms") passes; the error then names the missing ranks. On success the caller
 * owns *comm; on failure *comm is NULL and tutti_last_error(NULL) has the sentence. */
TUTTI_API tutti_status_t tutti_comm_init_rank(tutti_comm_t** comm, int nranks, const tutti_unique_id_t* id, int rank);

/* The same with options; `config` may be NULL and is copied. */
TUTTI_API tutti_status_t tutti_comm_init_rank_config(tutti_comm_t** comm, int nranks, const tutti_unique_id_t* id,
                                                     int rank, const tutti_config_t* config);

/* Joins the communicator of all processes that this process's launcher started: `tutti run`, torchrun, Open MPI's
 * mpirun, MPICH's mpiexec (hydra), srun; a process started by none of them is a communicator of one rank. Blocks like
 * tutti_comm_init_rank(). `config` may be NULL. */
TUTTI_API tutti_status_t tutti_comm_init_from_environment(tutti_comm_t** comm, const tutti_config_t* config);

/* A key-value store that the ranks of a job share, of the program that embeds tutti. Set `struct_size =
 * sizeof(tutti_store_t)`. Keys and values are texts of printable characters, values of less than
 * TUTTI_STORE_VALUE_SIZE. Called by the thread that joins, and only while it does. The functions return TUTTI_SUCCESS,
 * or TUTTI_SYSTEM_ERROR when the store cannot be reached, and must not throw or call tutti. */
#define TUTTI_STORE_VALUE_SIZE 1024
typedef struct tutti_store {
  size_t struct_size;
  /* Puts a copy of `value` under `key`, in place of what is there. */
  tutti_status_t (*set)(void* context, const char* key, const char* value);
  /* Copies what is under `key`, and a NUL, to `value`, which has room for `size_bytes`. Blocks until there is
   * something, for timeout_ms at most, with 0 not at all; then TUTTI_TIMEOUT. May say so early: it is asked again. */
  tutti_status_t (*get)(void* context, const char* key, char* value, size_t size_bytes, int64_t timeout_ms);
  /* Takes away what is under `key`. NULL where the store cannot: then no two joins may use one key. */
  tutti_status_t (*remove)(void* context, const char* key);
  void* context; /* the functions' first argument */
} tutti_store_t;

/* Joins the communicator of `nranks` ranks as `rank`; the ranks meet through `store`: rank 0 puts an id there under
 * `key`, the others read it, and when all have joined rank 0 takes it away. The id holds the job's secret: whoever
 * reads the store can join. `key` is the same on all ranks, and another one for communicators that are made at the same
 * time. Ids that an earlier run has left there are noticed: rank 0's replaces them. The functions of `store` are not
 * called after the return. Blocks, owns and fails as tutti_comm_init_rank_config() does; also TUTTI_TIMEOUT when rank 0
 * puts no id there, and TUTTI_SYSTEM_ERROR when the store fails. */
TUTTI_API tutti_status_t tutti_comm_init_store(tutti_comm_t** comm, int nranks, int rank, const tutti_store_t* store,
                                               const char* key, const tutti_config_t* config);

/* Makes new communicators of the ranks of `comm`: one of all ranks with the same `color`, numbered by `key` and, where
 * keys are alike, by their rank in `comm`. With color < 0 a rank takes part and gets *new_comm = NULL. A collective
 * call of `comm`: every rank makes it, in the same place of the order. Blocks until all ranks of the new communicator
 * have joined or the deadline ("bootstrap_timeout_ms") passes. `config` may be NULL: the options of `comm`. The new
 * communicator is independent of `comm`, may outlive it, and is the caller's to destroy. Its secret derives from that
 * of `comm`. Errors: as tutti_comm_init_rank(). */
TUTTI_API tutti_status_t tutti_comm_split(tutti_comm_t* comm, int color, int key, tutti_comm_t** new_comm,
                                          const tutti_config_t* config);

/* The same with all ranks, numbered as in `comm`. */
TUTTI_API tutti_status_t tutti_comm_dup(tutti_comm_t* comm, tutti_comm_t** new_comm, const tutti_config_t* config);

/* What a communicator takes in this process, beside the caller's buffers. */
typedef struct tutti_comm_memory {
  size_t struct_size;      /* sizeof(tutti_comm_memory_t), set by the caller */
  uint64_t reserved_bytes; /* address space for messages; pages that no message has touched take no memory */
  uint64_t resident_bytes; /* of it: what takes memory now */
  uint64_t private_bytes;  /* messages that were not received yet, and what running calls need */
  uint64_t pooled_bytes;   /* of the whole process: free now, for what calls of any communicator need */
} tutti_comm_memory_t;

/* Fills *memory. Does not block for other ranks. */
TUTTI_API tutti_status_t tutti_comm_memory(tutti_comm_t* comm, tutti_comm_memory_t* memory);

/* This process's rank (0-based), and the number of ranks. Never block. */
TUTTI_API tutti_status_t tutti_comm_rank(const tutti_comm_t* comm, int* rank);
TUTTI_API tutti_status_t tutti_comm_size(const tutti_comm_t* comm, int* size);

/* A number that tells this communicator from others: the same on all its ranks, and new for each one that is made. It
 * is no secret. Does not block. */
TUTTI_API tutti_status_t tutti_comm_id(const tutti_comm_t* comm, uint64_t* id);

/* TUTTI_SUCCESS while the communicator works, else its first error. Any thread; never blocks. */
TUTTI_API tutti_status_t tutti_comm_status(const tutti_comm_t* comm);

/* Waits until every call started on `comm` is complete on this rank, and then until all other ranks finalize too (or
 * one dies, or "timeout_ms" passes): those that still exchange messages may need this one to pass them on. Blocks.
 * Afterwards only tutti_comm_destroy() and the queries are allowed. */
TUTTI_API tutti_status_t tutti_comm_finalize(tutti_comm_t* comm);

/* Finalizes if that was not done, then frees everything but requests that were not waited for; `comm` is invalid
 * afterwards whatever is returned. NULL is allowed. What was registered by it is deregistered: no call on another
 * communicator may be using that. Blocks like tutti_comm_finalize(): ranks that share several
 * communicators destroy them in one order. The requests are complete then, with an error if their calls could not
 * finish; tutti_wait() and tutti_test() still take and free them, and keep the sentence of an error for
 * tutti_last_error(NULL). */
TUTTI_API tutti_status_t tutti_comm_destroy(tutti_comm_t* comm);

/* Makes every running and later call of this communicator return TUTTI_ABORTED promptly, here and on the other ranks.
 * Any thread; idempotent; does not block. `comm` stays valid until tutti_comm_destroy(). */
TUTTI_API tutti_status_t tutti_comm_abort(tutti_comm_t* comm);

/* The sentence of the communicator's last error, or with NULL of the calling thread's last failed call that had no
 * communicator. "" when there was none. Valid until the calling thread's next tutti call. */
TUTTI_API const char* tutti_last_error(const tutti_comm_t* comm);

/* ---- Memory ------------------------------------------------------------------------------------------------- */

/* Page-aligned, zeroed memory that ranks of one host can reach directly, which saves collectives on it the copies that
 * malloc memory costs: what fits into the caches is reduced several times faster. Errors: TUTTI_SYSTEM_ERROR when
 * memory is short. Any thread. */
TUTTI_API tutti_status_t tutti_mem_alloc(void** pointer, size_t size_bytes);

/* Frees memory from tutti_mem_alloc(); NULL is allowed. No call may be using it. */
TUTTI_API tutti_status_t tutti_mem_free(void* pointer);

/* Makes ordinary memory, of malloc or an anonymous mmap, reachable like tutti_mem_alloc()'s: calls on any part of it,
 * on any communicator, then save the same copies. It keeps its address and what it holds: the whole pages in it move
 * onto shared memory in place, and of a first or last page that is not whole the call copies its part. Other ranks need
 * not do it. Memory of a device stays as it is: nothing of this is about it. Until tutti_comm_deregister()
 *   - it must not be freed, unmapped or mapped anew. Calls look for it in one place of a buffer: those that notice take
 *     it as ordinary memory, with a warning; where they do not (memory that was freed in part, inputs that happen to be
 *     equal) results are wrong;
 *   - a forked child does not have it: touching it ends the child;
 *   - MADV_DONTNEED does not zero it, and devices that had its pages pinned do not see it. It is not locked (mlock),
 *     and has lost what else was advised (madvise) or set for its pages, for good.
 * Each registration takes a file descriptor. What lies inside registered memory or that of tutti_mem_alloc() may be
 * registered again, and then stays as it is until both are deregistered. No thread may write to it while this function
 * or tutti_comm_deregister() runs, which may each take as much memory again; threads may read it, and fork. The caller
 * owns *handle; tutti_comm_destroy() deregisters what is left. Does not block for other ranks. Errors:
 * TUTTI_INVALID_ARGUMENT for memory of another kind (a file's, shared, read-only), TUTTI_INVALID_USAGE when only a part
 * is registered already, TUTTI_SYSTEM_ERROR when memory is short; nothing has changed then. */
TUTTI_API tutti_status_t tutti_comm_register(tutti_comm_t* comm, void* buffer, size_t size_bytes, void** handle);

/* Makes it ordinary memory again, at the same address, which holds what it holds; NULL is allowed. No call may be using
 * it. Errors: TUTTI_INVALID_USAGE when it was freed meanwhile (nothing, when its place was registered or allocated by
 * tutti_mem_alloc() since): it is no longer registered all the same; TUTTI_SYSTEM_ERROR when memory is short: it still
 * is, and this may be called again. */
TUTTI_API tutti_status_t tutti_comm_deregister(tutti_comm_t* comm, void* handle);

/* ---- Collectives -------------------------------------------------------------------------------------------- */

/* What all calls of this section have in common:
 *   - Every rank of `comm` calls the same ones in the same order, with the same count, datatype, op and root. Where
 *     ranks differ the call fails, on ranks that have returned from it the next; both sides are named, nothing is cut.
 *   - They block until this rank's part is done: recv_buffer holds its result and send_buffer may be changed. That says
 *     nothing about other ranks, save in tutti_barrier(). tutti_start() does the same without blocking.
 *   - Buffers are host memory, and `stream` is NULL; or they are device, managed or pinned memory of CUDA, and the call
 *     is put on `stream` (NULL: the default one, if a buffer is on a device): it returns at once, among threads on one
 *     GPU once all have called, and recv_buffer holds the result for what comes later there. Ranks may differ. What
 *     goes wrong after the return comes from tutti_comm_status() and the calls that follow. See docs/gpu.md.
 *   - "n" is the number of ranks, "rank" this one.
 *   - Send and receive buffers may not overlap, except in place, as each call says. With count 0 they may be NULL.
 *   - Errors: TUTTI_INVALID_ARGUMENT, before anything is sent; TUTTI_INVALID_USAGE when ranks differ;
 *     TUTTI_REMOTE_ERROR, TUTTI_TIMEOUT, TUTTI_ABORTED, TUTTI_SYSTEM_ERROR, TUTTI_CUDA_ERROR, which fail the
 *     communicator.
 *
 * Operations: contributions of 8- and 16-bit floats are combined in float32 and rounded once, by every algorithm and on
 * any number of ranks; a function of the program combines values of the datatype. All ranks get identical bits.
 */

/* Reduces `count` elements of every rank's send_buffer with `op` and leaves the result in every rank's recv_buffer.
 * In place: send_buffer == recv_buffer. */
TUTTI_API tutti_status_t tutti_all_reduce(const void* send_buffer, void* recv_buffer, uint64_t count,
                                          tutti_datatype_t datatype, tutti_op_t op, tutti_comm_t* comm,
                                          tutti_stream_t stream);

/* The same with the result on `root` only; recv_buffer is not used on other ranks. In place on the root: send_buffer ==
 * recv_buffer. */
TUTTI_API tutti_status_t tutti_reduce(const void* send_buffer, void* recv_buffer, uint64_t count,
                                      tutti_datatype_t datatype, tutti_op_t op, int root, tutti_comm_t* comm,
                                      tutti_stream_t stream);

/* Copies `count` elements of the root's send_buffer to every rank's recv_buffer; send_buffer is not used on other
 * ranks. In place on the root: send_buffer == recv_buffer. */
TUTTI_API tutti_status_t tutti_broadcast(const void* send_buffer, void* recv_buffer, uint64_t count,
                                         tutti_datatype_t datatype, int root, tutti_comm_t* comm,
                                         tutti_stream_t stream);

/* Every rank gets the blocks of all ranks, in rank order: recv_buffer has n * send_count elements. In place:
 * send_buffer == recv_buffer + rank * send_count elements. */
TUTTI_API tutti_status_t tutti_all_gather(const void* send_buffer, void* recv_buffer, uint64_t send_count,
                                          tutti_datatype_t datatype, tutti_comm_t* comm, tutti_stream_t stream);

/* Reduces n blocks of recv_count elements each, and leaves block r on rank r. In place: recv_buffer == send_buffer +
 * rank * recv_count elements, as NCCL has it, or recv_buffer == send_buffer, as MPI has it, which takes a copy. */
TUTTI_API tutti_status_t tutti_reduce_scatter(const void* send_buffer, void* recv_buffer, uint64_t recv_count,
                                              tutti_datatype_t datatype, tutti_op_t op, tutti_comm_t* comm,
                                              tutti_stream_t stream);

/* Block j of send_buffer goes to rank j, as block `rank` of its recv_buffer; both have n blocks of `count` elements. In
 * place: send_buffer == recv_buffer. */
TUTTI_API tutti_status_t tutti_all_to_all(const void* send_buffer, void* recv_buffer, uint64_t count,
                                          tutti_datatype_t datatype, tutti_comm_t* comm, tutti_stream_t stream);

/* The root gets the blocks of all ranks, in rank order: its recv_buffer has n * count elements; on other ranks it is
 * not used. In place on the root: send_buffer == recv_buffer + root * count elements. */
TUTTI_API tutti_status_t tutti_gather(const void* send_buffer, void* recv_buffer, uint64_t count,
                                      tutti_datatype_t datatype, int root, tutti_comm_t* comm, tutti_stream_t stream);

/* Block r of the root's send_buffer, which has n * count elements, goes to rank r; on other ranks send_buffer is not
 * used. In place on the root: recv_buffer == send_buffer + root * count elements. */
TUTTI_API tutti_status_t tutti_scatter(const void* send_buffer, void* recv_buffer, uint64_t count,
                                       tutti_datatype_t datatype, int root, tutti_comm_t* comm, tutti_stream_t stream);

/* Returns when all ranks have called it. */
TUTTI_API tutti_status_t tutti_barrier(tutti_comm_t* comm, tutti_stream_t stream);

/* The forms with counts: blocks of different sizes. `counts` and `displacements` have n entries, in elements; block r
 * begins at displacement r of its buffer. NULL displacements: blocks follow each other without gaps. Blocks of a
 * receive buffer may not overlap. Both sides of a block must name the same count: the error says who sends how many
 * elements to whom. The arrays are copied: they may be changed when the function returns, also tutti_start(). */

/* recv_counts are the same on all ranks, and send_count == recv_counts[rank]; displacements are each rank's own. In
 * place: send_buffer == recv_buffer + displacement `rank`. */
TUTTI_API tutti_status_t tutti_all_gather_v(const void* send_buffer, uint64_t send_count, void* recv_buffer,
                                            const uint64_t* recv_counts, const uint64_t* recv_displacements,
                                            tutti_datatype_t datatype, tutti_comm_t* comm, tutti_stream_t stream);

/* send_buffer has blocks of recv_counts elements, without gaps; recv_counts are the same on all ranks. In place:
 * recv_buffer == where block `rank` begins, or recv_buffer == send_buffer. */
TUTTI_API tutti_status_t tutti_reduce_scatter_v(const void* send_buffer, void* recv_buffer,
                                                const uint64_t* recv_counts, tutti_datatype_t datatype, tutti_op_t op,
                                                tutti_comm_t* comm, tutti_stream_t stream);

/* send_counts[j] of rank i == recv_counts[i] of rank j. In place: the buffers are the same, and so are the counts and
 * displacements. */
TUTTI_API tutti_status_t tutti_all_to_all_v(const void* send_buffer, const uint64_t* send_counts,
                                            const uint64_t* send_displacements, void* recv_buffer,
                                            const uint64_t* recv_counts, const uint64_t* recv_displacements,
                                            tutti_datatype_t datatype, tutti_comm_t* comm, tutti_stream_t stream);

/* The arrays are used on the root only, where recv_counts[r] == send_count of rank r. In place on the root: send_buffer
 * == recv_buffer + displacement `root`. */
TUTTI_API tutti_status_t tutti_gather_v(const void* send_buffer, uint64_t send_count, void* recv_buffer,
                                        const uint64_t* recv_counts, const uint64_t* recv_displacements,
                                        tutti_datatype_t datatype, int root, tutti_comm_t* comm,
                                        tutti_stream_t stream);

/* The arrays are used on the root only, where send_counts[r] == recv_count of rank r. In place on the root: recv_buffer
 * == send_buffer + displacement `root`. */
TUTTI_API tutti_status_t tutti_scatter_v(const void* send_buffer, const uint64_t* send_counts,
                                         const uint64_t* send_displacements, void* recv_buffer, uint64_t recv_count,
                                         tutti_datatype_t datatype, int root, tutti_comm_t* comm,
                                         tutti_stream_t stream);

/* ---- Point-to-point ----------------------------------------------------------------------------------------- */

/* For tutti_recv(): a message of any rank, with any tag. */
#define TUTTI_ANY_SOURCE (-1)
#define TUTTI_ANY_TAG (-1)

/* What was received. */
typedef struct tutti_message {
  int32_t source; /* rank of the sender */
  int32_t tag;
  uint64_t count; /* elements: may be fewer than there was room for */
} tutti_message_t;

/* Only the two ranks concerned make these calls. A message is received by the first call that names its sender and its
 * tag, or TUTTI_ANY_SOURCE, TUTTI_ANY_TAG; messages of one sender that the same call could receive are received in the
 * order in which they were sent. Collectives and point-to-point calls of a communicator do not wait for each other, and
 * a rank that waits in any call takes its part in all. A rank may send to itself. Tags are 0 to INT32_MAX. Both sides
 * name one datatype. On streams they are as collectives are: a call returns at once, and what is said here of blocking
 * is true of the stream. Errors are those of collectives. Where datatypes differ, or the message is longer than there
 * is room for, the communicator fails on all ranks, and the sentence names both sides; nothing is cut. */

/* Sends `count` elements to rank `peer`. Blocks until send_buffer may be changed; a short message may then still wait
 * in the library for the other rank to receive it, a long one has been received. Two ranks that both send before they
 * receive can wait for each other: use tutti_send_recv(), a group, or tutti_start(). */
TUTTI_API tutti_status_t tutti_send(const void* send_buffer, uint64_t count, tutti_datatype_t datatype, int peer,
                                    int tag, tutti_comm_t* comm, tutti_stream_t stream);

/* Receives a message of up to `count` elements from rank `peer`. Blocks until it is in recv_buffer. Fills *message,
 * which may be NULL; in a group, at its end; on a stream, when that gets there: it must live as long. */
TUTTI_API tutti_status_t tutti_recv(void* recv_buffer, uint64_t count, tutti_datatype_t datatype, int peer, int tag,
                                    tutti_comm_t* comm, tutti_stream_t stream, tutti_message_t* message);

/* Both at once, so that ranks which exchange messages do not wait for each other: sends to rank `dest`, receives from
 * rank `source`. The buffers may not overlap. Blocks until both are done. Without blocking: start one call of each. */
TUTTI_API tutti_status_t tutti_send_recv(const void* send_buffer, uint64_t send_count, int dest, int send_tag,
                                         void* recv_buffer, uint64_t recv_count, int source, int recv_tag,
                                         tutti_datatype_t datatype, tutti_comm_t* comm, tutti_stream_t stream,
                                         tutti_message_t* message);

/* ---- Groups ------------------------------------------------------------------------------------------------- */

/* From here to tutti_group_end() the collectives, sends and receives that the calling thread calls by name only check
 * their arguments; at the end all start together, and it blocks until those on host buffers are complete, so that sends
 * and receives of a group may stand in any order. Those on streams are put there together before it returns. They may
 * be of several communicators. Small all_reduces, reduces and broadcasts of one communicator, datatype, operation and
 * root become one call, which is faster the more a call's latency counts. Float results may be rounded otherwise; with
 * the option "deterministic" they have the same bits. No call of a group may read what another one of it writes. Every
 * rank makes the same collectives in the same order inside the group. Groups may be nested; only the outermost counts.
 * tutti_start(), splitting, and destroying a communicator that the group has calls of are refused inside. */
TUTTI_API tutti_status_t tutti_group_begin(void);

/* Returns the first error of the group's calls. If the arguments of one of them were refused, nothing is started; calls
 * of a communicator that has failed do not keep those of others from being made.
 * Errors: TUTTI_INVALID_USAGE when no group was begun. */
TUTTI_API tutti_status_t tutti_group_end(void);

/* ---- Operations of your own --------------------------------------------------------------------------------- */

/* Combines blocks of elements: in_out[i] = in[i] op in_out[i] for i in 0 .. count - 1; unless it commutes, `in` is of
 * lower ranks than in_out. Called with blocks of any size, by whoever makes progress: a thread in a tutti call, or one
 * of the library's. It must be associative, must not call tutti and must not throw. */
typedef void (*tutti_reduce_function_t)(const void* in, void* in_out, uint64_t count, tutti_datatype_t datatype,
                                        void* context);

/* Makes an operation for calls of `comm` from a function. Every rank makes and destroys the same operations in the same
 * order, since calls name them by number. With commutative == 0 contributions are combined in rank order. `context` is
 * handed to the function and must live as long as the operation. Does not block. Errors: TUTTI_INVALID_USAGE when 192
 * operations exist. */
TUTTI_API tutti_status_t tutti_op_create(tutti_op_t* op, tutti_reduce_function_t function, int commutative,
                                         void* context, tutti_comm_t* comm);

/* Makes a sum whose contributions are multiplied by *scalar first, one element of `datatype`, which is copied and may
 * differ between ranks; it is for calls of that datatype. The products are rounded to the datatype. Does not block. */
TUTTI_API tutti_status_t tutti_op_create_pre_mul_sum(tutti_op_t* op, const void* scalar, tutti_datatype_t datatype,
                                                     tutti_comm_t* comm);

/* Lets go of an operation. Calls that were started keep what they need of it, but a function's context. */
TUTTI_API tutti_status_t tutti_op_destroy(tutti_op_t op, tutti_comm_t* comm);

/* ---- Calls in full, and requests ---------------------------------------------------------------------------- */

/* A call that was started and not yet waited for. */
typedef struct tutti_request tutti_request_t;

/* One call, in full; what fields mean is said with the function of the collective's name. Zero the struct, set
 * `struct_size = sizeof(tutti_call_t)`, then the fields that the collective uses; others are not looked at. Fields that
 * a newer library adds at the end are zero for older programs, which always means "the default". */
typedef struct tutti_call {
  size_t struct_size;
  tutti_collective_t collective;
  tutti_datatype_t datatype;
  tutti_op_t op;
  int32_t root;
  const void* send_buffer;
  void* recv_buffer;
  uint64_t count;           /* elements: send_count of all_gather and gather_v, recv_count of reduce_scatter, ... */
  tutti_stream_t stream;    /* NULL for host buffers */
  int64_t timeout_ms;       /* 0: the communicator's; a receive that is to stand for long says so here */
  uint64_t flags;           /* 0 */
  const uint64_t* send_counts; /* these four: of the forms with counts */
  const uint64_t* send_displacements;
  const uint64_t* recv_counts;
  const uint64_t* recv_displacements;
  int32_t peer;             /* these three: of TUTTI_SEND and TUTTI_RECV */
  int32_t tag;
  tutti_message_t* message; /* NULL, or filled when the receive is complete */
  /* NULL, or called once with `context` when the call is done, with an error too, by whoever makes progress: a thread
   * in a tutti call or one of the library's. It must be short, must not throw and must not call tutti; the request can
   * be taken as soon as it has returned. Not of a call that tutti_start() refuses. */
  void (*completed)(void* context);
  void* context;
} tutti_call_t;

/* Starts a call and returns at once; the library makes progress by itself. The buffers belong to the library until the
 * request is complete. Collectives of one communicator run and complete in the order in which they were started, which
 * must be the same on all ranks; sends and receives complete in any order. On success the caller owns *request until
 * one of the functions below takes it, which may be after tutti_comm_destroy(). */
TUTTI_API tutti_status_t tutti_start(tutti_comm_t* comm, const tutti_call_t* call, tutti_request_t** request);

/* A call that is checked and planned once and started many times, on the same buffers. */
typedef struct tutti_prepared tutti_prepared_t;

/* Checks the call and plans it. Does not block, and the other ranks need not do it: they may make the call in any way.
 * On success the caller owns *prepared until tutti_prepared_destroy(), which must come before that of `comm`. */
TUTTI_API tutti_status_t tutti_prepare(tutti_comm_t* comm, const tutti_call_t* call, tutti_prepared_t** prepared);

/* Starts the call as tutti_start() does, without allocating. One at a time: its request must have been taken before it
 * is started again. */
TUTTI_API tutti_status_t tutti_start_prepared(tutti_prepared_t* prepared, tutti_request_t** request);

/* NULL is allowed. Errors: TUTTI_INVALID_USAGE while it is started and its request was not taken; it then lives on. */
TUTTI_API tutti_status_t tutti_prepared_destroy(tutti_prepared_t* prepared);

/* Blocks until the request is complete, frees it and sets *request to NULL. Returns the call's status. */
TUTTI_API tutti_status_t tutti_wait(tutti_request_t** request);

/* Does not block. Incomplete: *done = 0. Complete: *done = 1, frees the request, sets *request to NULL and returns the
 * call's status. */
TUTTI_API tutti_status_t tutti_test(tutti_request_t** request, int* done);

/* Blocks until all `count` requests are complete, and takes them as tutti_wait() does; entries that are NULL are
 * skipped. Returns the first error by position; all are taken whatever it is. */
TUTTI_API tutti_status_t tutti_wait_all(size_t count, tutti_request_t** requests);

/* Blocks until one of the `count` requests is complete, takes it as tutti_wait() does, sets *index to its position and
 * returns its status; of several that are complete the first by position. Entries that are NULL are skipped; when all
 * are, *index = count and nothing is waited for. The requests may belong to several communicators. */
TUTTI_API tutti_status_t tutti_wait_any(size_t count, tutti_request_t** requests, size_t* index);

/* ---- Profiling ---------------------------------------------------------------------------------------------- */

/* What a profiler is told of a call. The texts are valid until its function returns. */
typedef struct tutti_profiled_call {
  size_t struct_size; /* of the library's struct: newer ones have more fields at the end */
  uint64_t comm_id;   /* tutti_comm_id() */
  int32_t rank;
  int32_t nranks;
  tutti_collective_t collective;
  tutti_datatype_t datatype;
  tutti_op_t op;         /* of reductions; an operation of the program is named by its number */
  int32_t root;          /* of collectives that have one, else -1 */
  int32_t peer;          /* of sends and receives, else -1; TUTTI_ANY_SOURCE is possible */
  int32_t tag;           /* likewise; else 0 */
  uint64_t sequence;     /* which collective of the communicator, from 1, as in sentences; 0: a send or receive */
  uint64_t send_bytes;   /* what this rank's buffers of the call span; 0: not used on this rank */
  uint64_t recv_bytes;
  const char* algorithm; /* "ring"; "copy" on one rank, "fused" on one GPU, "" for sends and receives */
} tutti_profiled_call_t;

/* Set `struct_size = sizeof(tutti_profiler_t)`. Whoever makes progress calls the functions: a thread in a tutti call,
 * one of the library's, or one of CUDA's in which a stream has come to a call; of one communicator one at a time. They
 * must be short, must not throw, and call neither tutti nor CUDA. */
typedef struct tutti_profiler {
  size_t struct_size;
  /* The call begins to run: calls before it are done, and its buffers and plan are known. One that GPUs are to do by
   * themselves (docs/gpu.md): it is made, and its stream comes to it later; from a graph, or once the rank has captured
   * a call: its stream has come to it. What this returns is handed to `end` of the same call. */
  void* (*begin)(void* context, const tutti_profiled_call_t* call);
  /* It is done, or has failed with `status`: once for each `begin`. */
  void (*end)(void* context, void* begun, tutti_status_t status);
  void* context; /* the functions' first argument; must live as long as the profiler is installed */
} tutti_profiler_t;

/* Tells the profiler of each call of `comm` from now on, and of communicators that are split from it; NULL: nobody any
 * more. The struct is copied. Small calls of a group that are made as one are told as one. A call on a stream that goes
 * through the host is told when the stream has come to it. That GPUs have done one by themselves is told within a part
 * of the time that it took, of a millisecond at most, or by the rank's next call; and before this function, or
 * tutti_comm_finalize(), returns. Without a profiler calls take no longer; with one, small calls do without the
 * shortcuts for those that are made again. Does not block. Errors: TUTTI_INVALID_ARGUMENT when a function is missing,
 * TUTTI_INVALID_USAGE while calls are under way. */
TUTTI_API tutti_status_t tutti_comm_set_profiler(tutti_comm_t* comm, const tutti_profiler_t* profiler);

#ifdef __cplusplus
}
#endif

#endif
