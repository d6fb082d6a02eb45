/* The ways with system calls for sockets: one stream or several, asleep or spinning, copied or not. */
#define _GNU_SOURCE
#include <errno.h>
/* linux/errqueue.h needs it first. */
#include <time.h>

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stream_ways.h"

/* ---- One stream, as far as it goes without waiting ----------------------------------------------------------- */

/* All of them return whether something has moved. */

static int full(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

static int push(struct stream* stream, int zero_copy) {
  if (stream->out_left == 0 || stream->starved) return 0;
  zero_copy = zero_copy && stream->out_left >= kLeastZeroCopy;
  size_t size = zero_copy && stream->out_left > kZeroCopyBytes ? kZeroCopyBytes : stream->out_left;
  ssize_t sent = send(stream->socket, stream->out, size, MSG_DONTWAIT | MSG_NOSIGNAL | (zero_copy ? MSG_ZEROCOPY : 0));
  if (sent < 0 && errno == ENOBUFS && zero_copy) {
    if (stream->lent == 0) fail("the kernel locks no memory for MSG_ZEROCOPY; raise `ulimit -l`", errno);
    stream->starved = 1;
    return 0;
  }
  if (sent < 0 && full()) return 0;
  if (sent < 0) fail("cannot send", errno);
  stream->out += sent;
  stream->out_left -= (size_t)sent;
  stream->lent += zero_copy;
  stream->zero_copy_sends += (uint64_t)zero_copy;
  return 1;
}

static int take(struct stream* stream) {
  if (stream->in_left == 0) return 0;
  ssize_t received = recv(stream->socket, stream->in, stream->in_left, MSG_DONTWAIT);
  if (received < 0 && full()) return 0;
  if (received <= 0) fail("the other side has gone", received < 0 ? errno : 0);
  stream->in += received;
  stream->in_left -= (size_t)received;
  return 1;
}

/* Of a range of sends: the kernel no longer reads their memory. */
static void give_back(struct stream* stream, const struct sock_extended_err* report) {
  if (report->ee_origin != SO_EE_ORIGIN_ZEROCOPY || report->ee_errno != 0) fail("the stream broke", 0);
  unsigned sends = report->ee_data - report->ee_info + 1;
  if (sends > stream->lent) fail("the kernel gives back more memory than was lent", 0);
  stream->lent -= sends;
  stream->starved = 0;
  if (report->ee_code & SO_EE_CODE_ZEROCOPY_COPIED) stream->copied += sends;
}

static int take_back(struct stream* stream) {
  if (stream->lent == 0) return 0;
  _Alignas(struct cmsghdr) char control[128];
  struct msghdr message = {.msg_control = control, .msg_controllen = sizeof control};
  if (recvmsg(stream->socket, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
    if (full()) return 0;
    fail("cannot read the error queue", errno);
  }
  for (struct cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    int is_report = (part->cmsg_level == SOL_IP && part->cmsg_type == IP_RECVERR) ||
                    (part->cmsg_level == SOL_IPV6 && part->cmsg_type == IPV6_RECVERR);
    if (is_report) give_back(stream, (const struct sock_extended_err*)(const void*)CMSG_DATA(part));
  }
  return 1;
}

/* ---- Streams to their end ------------------------------------------------------------------------------------ */

struct manner {
  int spins;
  int zero_copy;
};

static int busy(const struct stream* stream) {
  return stream->out_left > 0 || stream->in_left > 0 || stream->lent > 0;
}

/* The error queue wakes whatever is asked for. */
static void sleep_until_ready(const struct stream* streams, int count) {
  struct pollfd polled[kMostStreams];
  for (int i = 0; i < count; ++i) {
    int out = streams[i].out_left > 0 && !streams[i].starved ? POLLOUT : 0;
    int in = streams[i].in_left > 0 ? POLLIN : 0;
    polled[i] = (struct pollfd){.fd = busy(&streams[i]) ? streams[i].socket : -1, .events = (short)(in | out)};
  }
  if (poll(polled, (nfds_t)count, -1) < 0 && errno != EINTR) fail("cannot poll", errno);
}

static void drive(struct stream* streams, int count, struct manner manner) {
  for (;;) {
    int moved = 0, left = 0;
    for (int i = 0; i < count; ++i) {
      moved |= push(&streams[i], manner.zero_copy) | take(&streams[i]) | take_back(&streams[i]);
      left |= busy(&streams[i]);
    }
    if (!left) return;
    if (!moved && manner.spins) sched_yield(); /* to the other side, where both are on one core */
    if (!moved && !manner.spins) sleep_until_ready(streams, count);
  }
}

static void sleeping(struct carrier* carrier) {
  drive(carrier->streams, carrier->way->streams, (struct manner){0});
}

static void spinning(struct carrier* carrier) {
  drive(carrier->streams, carrier->way->streams, (struct manner){.spins = 1});
}

/* ---- A thread for each stream -------------------------------------------------------------------------------- */

struct helper {
  struct stream* stream;
  pthread_t thread;
  sem_t begin;
  sem_t done;
  int ends;
};

static void* help(void* argument) {
  struct helper* helper = argument;
  for (;;) {
    while (sem_wait(&helper->begin) != 0) continue;
    if (helper->ends) return NULL;
    drive(helper->stream, 1, (struct manner){0});
    sem_post(&helper->done);
  }
}

/* The caller's thread has the first stream. */
static const char* open_threads(struct carrier* carrier) {
  struct helper* helpers = calloc(kMostStreams, sizeof *helpers);
  if (!helpers) fail("out of memory", 0);
  for (int i = 1; i < carrier->way->streams; ++i) {
    helpers[i].stream = &carrier->streams[i];
    if (sem_init(&helpers[i].begin, 0, 0) != 0 || sem_init(&helpers[i].done, 0, 0) != 0 ||
        pthread_create(&helpers[i].thread, NULL, help, &helpers[i]) != 0)
      fail("cannot start a thread", errno);
  }
  carrier->state = helpers;
  return NULL;
}

static void close_threads(struct carrier* carrier) {
  struct helper* helpers = carrier->state;
  for (int i = 1; i < carrier->way->streams; ++i) {
    helpers[i].ends = 1;
    sem_post(&helpers[i].begin);
    pthread_join(helpers[i].thread, NULL);
    sem_destroy(&helpers[i].begin);
    sem_destroy(&helpers[i].done);
  }
  free(helpers);
}

static void on_threads(struct carrier* carrier) {
  struct helper* helpers = carrier->state;
  int helped[kMostStreams] = {0};
  for (int i = 1; i < carrier->way->streams; ++i) {
    helped[i] = busy(&carrier->streams[i]);
    if (helped[i]) sem_post(&helpers[i].begin);
  }
  drive(carrier->streams, 1, (struct manner){0});
  for (int i = 1; i < carrier->way->streams; ++i) {
    if (!helped[i]) continue;
    while (sem_wait(&helpers[i].done) != 0) continue;
  }
}

/* ---- Zero copy ----------------------------------------------------------------------------------------------- */

static int ask_for_zero_copy(int socket) {
  int one = 1;
  return setsockopt(socket, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one);
}

static const char* lacking_zero_copy(void) {
  int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int refused = probe < 0 || ask_for_zero_copy(probe) != 0;
  if (probe >= 0) close(probe);
  return refused ? "the kernel has no MSG_ZEROCOPY for TCP (Linux 4.14 has it)" : NULL;
}

static const char* open_zero_copy(struct carrier* carrier) {
  if (ask_for_zero_copy(carrier->streams[0].socket) != 0) fail("cannot set SO_ZEROCOPY", errno);
  return NULL;
}

static void zero_copy(struct carrier* carrier) {
  drive(carrier->streams, carrier->way->streams, (struct manner){.zero_copy = 1});
}

/* ---- Without the host's congestion control ------------------------------------------------------------------- */

static const char kReno[] = "reno";

static int ask_for_reno(int socket) {
  return setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kReno, sizeof kReno - 1);
}

static const char* lacking_reno(void) {
  int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int refused = probe < 0 || ask_for_reno(probe) != 0;
  if (probe >= 0) close(probe);
  return refused ? "the kernel refuses Reno (net.ipv4.tcp_allowed_congestion_control)" : NULL;
}

static const char* open_reno(struct carrier* carrier) {
  if (ask_for_reno(carrier->streams[0].socket) != 0) fail("cannot set TCP_CONGESTION", errno);
  return NULL;
}

const struct way kSocketWays[] = {
    {"plain", "one stream, send and recv without blocking, poll where nothing moves", 1, .exchange = sleeping},
    {"spin", "the same without poll: it gives its core away and tries again", 1, .exchange = spinning},
    {"reno", "plain with the congestion control Reno instead of the host's", 1, lacking_reno, open_reno,
     .exchange = sleeping},
    {"streams-2", "plain with 2 streams, each with a part of the message, driven by one thread", 2,
     .exchange = sleeping},
    {"streams-4", "the same with 4", 4, .exchange = sleeping},
    {"threads-2", "2 streams with a thread for each", 2, NULL, open_threads, close_threads, on_threads},
    {"threads-4", "the same with 4", 4, NULL, open_threads, close_threads, on_threads},
    {"zerocopy", "plain with MSG_ZEROCOPY; a message is done when the error queue has given its memory back", 1,
     lacking_zero_copy, open_zero_copy, NULL, zero_copy},
    {0}};
