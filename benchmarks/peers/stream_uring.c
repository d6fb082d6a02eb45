/* The ways with io_uring: one submission for what is sent and received, which the kernel carries to its end. */
#define _GNU_SOURCE
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "stream_ways.h"

/* Linux 6.2; the headers that liburing 2.3 brings are older. */
#if !defined(IORING_SEND_ZC_REPORT_USAGE)
#define IORING_SEND_ZC_REPORT_USAGE (1U << 3)
#endif
#if !defined(IORING_NOTIF_USAGE_ZC_COPIED)
#define IORING_NOTIF_USAGE_ZC_COPIED (1U << 31)
#endif

enum { kEntries = 64 };

/* What an entry is; zero-copy sends are numbered from kSendZeroCopy on. */
enum { kSend, kReceive, kSendZeroCopy };

struct uring {
  struct io_uring ring;
  int zero_copy;
  int fixed; /* the memory is registered */
  int sends; /* under way */
  int receives;
  uint64_t last;    /* zero-copy send */
  uint64_t refused; /* the last one for which no memory could be locked; it is notified of like the others */
};

/* ---- What the kernel has ------------------------------------------------------------------------------------- */

/* Completions are handled when this thread waits for them (Linux 6.1), or whenever the kernel likes to. */
static int open_ring(struct io_uring* ring) {
  int result = io_uring_queue_init(kEntries, ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
  return result == -EINVAL ? io_uring_queue_init(kEntries, ring, 0) : result;
}

static int has(struct io_uring* ring, int operation) {
  struct io_uring_probe* probe = io_uring_get_probe_ring(ring);
  int found = probe && io_uring_opcode_supported(probe, operation);
  io_uring_free_probe(probe);
  return found;
}

static const char* lacking_operation(int operation, const char* sentence) {
  struct io_uring ring;
  int result = open_ring(&ring);
  if (result == -EPERM || result == -EACCES)
    return "the kernel refuses io_uring here (sysctl kernel.io_uring_disabled, or a container's rules)";
  if (result == -ENOMEM) return "io_uring may not lock memory; raise `ulimit -l`";
  if (result < 0) return "the kernel has no io_uring";
  int found = has(&ring, operation);
  io_uring_queue_exit(&ring);
  return found ? NULL : sentence;
}

static const char* lacking_uring(void) {
  return lacking_operation(IORING_OP_SEND, "the kernel's io_uring has no send (Linux 5.6 has it)");
}

static const char* lacking_zero_copy(void) {
  return lacking_operation(IORING_OP_SEND_ZC, "the kernel's io_uring has no SEND_ZC (Linux 6.2 has all of it)");
}

/* ---- Streams to their end ------------------------------------------------------------------------------------ */

static struct io_uring_sqe* next_entry(struct uring* uring) {
  struct io_uring_sqe* entry = io_uring_get_sqe(&uring->ring);
  if (!entry) fail("io_uring's submission queue is full", 0);
  return entry;
}

static void start_send(struct uring* uring, struct stream* stream) {
  int flags = MSG_NOSIGNAL | MSG_WAITALL;
  int zero_copy = uring->zero_copy && stream->out_left >= kLeastZeroCopy;
  size_t size = zero_copy && stream->out_left > kZeroCopyBytes ? kZeroCopyBytes : stream->out_left;
  struct io_uring_sqe* entry = next_entry(uring);
  if (!zero_copy) {
    io_uring_prep_send(entry, stream->socket, stream->out, size, flags);
  } else if (uring->fixed) {
    io_uring_prep_send_zc_fixed(entry, stream->socket, stream->out, size, flags, IORING_SEND_ZC_REPORT_USAGE, 0);
  } else {
    io_uring_prep_send_zc(entry, stream->socket, stream->out, size, flags, IORING_SEND_ZC_REPORT_USAGE);
  }
  io_uring_sqe_set_data64(entry, zero_copy ? ++uring->last : kSend);
  ++uring->sends;
}

static void start_receive(struct uring* uring, struct stream* stream) {
  struct io_uring_sqe* entry = next_entry(uring);
  io_uring_prep_recv(entry, stream->socket, stream->in, stream->in_left, MSG_WAITALL);
  io_uring_sqe_set_data64(entry, kReceive);
  ++uring->receives;
}

static void sent(struct uring* uring, struct stream* stream, const struct io_uring_cqe* done) {
  --uring->sends;
  if (done->flags & IORING_CQE_F_MORE) ++stream->lent; /* a notification follows */
  int zero_copy = io_uring_cqe_get_data64(done) >= kSendZeroCopy;
  if ((done->res == -ENOMEM || done->res == -ENOBUFS) && zero_copy) {
    stream->starved = 1;
    uring->refused = io_uring_cqe_get_data64(done);
    return;
  }
  if (done->res == -EINVAL && zero_copy) fail("the kernel's SEND_ZC is older than Linux 6.2; leave it out", 0);
  if (done->res <= 0) fail("cannot send", -done->res);
  stream->out += done->res;
  stream->out_left -= (size_t)done->res;
  if (zero_copy) ++stream->zero_copy_sends;
}

static void given_back(const struct uring* uring, struct stream* stream, const struct io_uring_cqe* done) {
  --stream->lent;
  if (io_uring_cqe_get_data64(done) == uring->refused) return;
  stream->starved = 0;
  if ((unsigned)done->res & IORING_NOTIF_USAGE_ZC_COPIED) ++stream->copied;
}

static void received(struct uring* uring, struct stream* stream, const struct io_uring_cqe* done) {
  --uring->receives;
  if (done->res <= 0) fail("the other side has gone", -done->res);
  stream->in += done->res;
  stream->in_left -= (size_t)done->res;
}

static void handle(struct uring* uring, struct stream* stream) {
  struct io_uring_cqe* done;
  unsigned head, count = 0;
  io_uring_for_each_cqe(&uring->ring, head, done) {
    ++count;
    if (done->flags & IORING_CQE_F_NOTIF)
      given_back(uring, stream, done);
    else if (io_uring_cqe_get_data64(done) == kReceive)
      received(uring, stream, done);
    else
      sent(uring, stream, done);
  }
  io_uring_cq_advance(&uring->ring, count);
}

/* One send and one receive at a time: what is in a stream has an order. It waits for one completion at a time: a wait
 * for two with IORING_SETUP_DEFER_TASKRUN did not end on Linux 6.18 when a send of which a part was gone had room
 * again. */
static void exchange(struct carrier* carrier) {
  struct uring* uring = carrier->state;
  struct stream* stream = &carrier->streams[0];
  for (;;) {
    if (stream->out_left > 0 && uring->sends == 0 && !stream->starved) start_send(uring, stream);
    if (stream->in_left > 0 && uring->receives == 0) start_receive(uring, stream);
    if (stream->starved && uring->sends == 0 && stream->lent == 0)
      fail("the kernel locks no memory for SEND_ZC; raise `ulimit -l`", 0);
    if (uring->sends == 0 && uring->receives == 0 && stream->lent == 0) return;
    int result = io_uring_submit_and_wait(&uring->ring, 1);
    if (result < 0 && result != -EINTR) fail("io_uring cannot wait", -result);
    handle(uring, stream);
  }
}

/* ---- Opening and closing ------------------------------------------------------------------------------------- */

static struct uring* opened(struct carrier* carrier) {
  struct uring* uring = calloc(1, sizeof *uring);
  if (!uring) fail("out of memory", 0);
  int result = open_ring(&uring->ring);
  if (result < 0) fail("cannot open io_uring", -result);
  uring->last = kSendZeroCopy;
  carrier->state = uring;
  return uring;
}

static const char* open_copying(struct carrier* carrier) { return opened(carrier), NULL; }

static const char* open_zero_copy(struct carrier* carrier) {
  opened(carrier)->zero_copy = 1;
  return NULL;
}

static const char* open_fixed(struct carrier* carrier) {
  struct uring* uring = opened(carrier);
  struct iovec memory = {carrier->memory, carrier->memory_size};
  int result = io_uring_register_buffers(&uring->ring, &memory, 1);
  uring->zero_copy = uring->fixed = 1;
  if (result == -ENOMEM) return "io_uring may not lock so much memory; raise `ulimit -l`, or leave sizes out";
  if (result < 0) fail("cannot register the memory with io_uring", -result);
  return NULL;
}

static void close_ring(struct carrier* carrier) {
  struct uring* uring = carrier->state;
  io_uring_queue_exit(&uring->ring);
  free(uring);
}

const struct way kUringWays[] = {
    {"uring", "one stream, send and recv of io_uring, with one system call for both", 1, lacking_uring, open_copying,
     close_ring, exchange},
    {"uring-zc", "the same with SEND_ZC; a message is done when the kernel has given its memory back", 1,
     lacking_zero_copy, open_zero_copy, close_ring, exchange},
    {"uring-zc-fixed", "the same from memory that was registered before", 1, lacking_zero_copy, open_fixed, close_ring,
     exchange},
    {0}};
