/* What a bare program reaches over TCP between two processes, by the way in which it uses its sockets: what tutti's
 * transport does is judged by that. Arguments:
 *
 *   list                                                    prints "NAME WHAT" of every way
 *   local               WAY DIRECTION SECONDS BYTES...      forks the other side, over the loopback interface
 *   listen ADDRESS PORT WAY DIRECTION SECONDS BYTES...      one side of two, of which one listens
 *   connect ADDRESS PORT WAY DIRECTION SECONDS BYTES...     the other one, with the same words
 *
 * DIRECTION is one-way (the side that connects sends a message, the other one answers with 8 bytes when it has all of
 * it) or both-ways (each sends a message and has the other's before the next ones go). A message is done when it is
 * there, and its memory at the sender may be written again.
 *
 * For each size the side that listens prints "BYTES MESSAGES MICROSECONDS NANOSECONDS WRONG LENT COPIED": the time of a
 * message, mean over about SECONDS and 3 messages at least, up to 1 MiB 16 to 100; the processor time of the threads of
 * both processes for each byte that went over; 8-byte words that came wrong, in a message with another pattern before
 * the timed ones and one after them, and in what each timed one begins and ends with; the zero-copy sends of the timed
 * messages, and those of them that the kernel copied after all.
 *
 * The exit status is 0, 2 for wrong usage, 69 where this machine lacks the way (with one sentence), or 1. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stream_ways.h"

enum { kLacking = 69, kLimitS = 100, kFewest = 3, kMost = 1000000, kWarmUpShare = 4, kWord = 8, kReasonBytes = 128 };
enum { kFewestOfSmall = 100, kFewestBytes = 16 << 20 };

void fail(const char* sentence, int error) {
  fprintf(stderr, "stream_ways: %s%s%s\n", sentence, error ? ": " : "", error ? strerror(error) : "");
  exit(1);
}

static void is_late(int number) {
  (void)number;
  static const char sentence[] = "stream_ways: nothing was finished for 100 s; is the other side still there?\n";
  (void)!write(STDERR_FILENO, sentence, sizeof sentence - 1);
  _exit(1);
}

/* ---- One side ------------------------------------------------------------------------------------------------ */

struct side {
  struct carrier carrier;
  int control;
  int connects;
  int both_ways;
  double seconds;
  char* out; /* both of the largest size, in the carrier's memory */
  char* in;
  char* answer;
};

/* What the sides tell each other, and join. */
struct note {
  uint64_t size;
  uint64_t messages;
  double wall_s;
  double processor_s;
  uint64_t wrong;
  uint64_t lent;
  uint64_t copied;
};

static double now_s(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double seconds_of(struct timeval time) { return (double)time.tv_sec + 1e-6 * (double)time.tv_usec; }

static double processor_s(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

static size_t part_begin(size_t size, int part, int parts) {
  size_t share = (size / (size_t)parts + 63) / 64 * 64;
  return part == parts || share * (size_t)part > size ? size : share * (size_t)part;
}

/* Each stream has its part, whose place both sides know. */
static void exchange(struct side* self, const char* out, size_t out_size, char* in, size_t in_size) {
  struct carrier* carrier = &self->carrier;
  int parts = carrier->way->streams;
  for (int i = 0; i < parts; ++i) {
    struct stream* stream = &carrier->streams[i];
    size_t out_begin = part_begin(out_size, i, parts), in_begin = part_begin(in_size, i, parts);
    stream->out = out + out_begin;
    stream->out_left = part_begin(out_size, i + 1, parts) - out_begin;
    stream->in = in + in_begin;
    stream->in_left = part_begin(in_size, i + 1, parts) - in_begin;
  }
  carrier->way->exchange(carrier);
}

/* ---- Messages ------------------------------------------------------------------------------------------------ */

/* The word at `at` of a pattern, which may end within it. */
static uint64_t word(size_t at, uint64_t seed) { return (at + 1) * UINT64_C(0x9E3779B97F4A7C15) ^ seed; }

static size_t word_size(size_t at, size_t size) { return size - at < kWord ? size - at : kWord; }

static void fill(char* memory, size_t size, uint64_t seed) {
  for (size_t at = 0; at < size; at += kWord) {
    uint64_t value = word(at, seed);
    memcpy(memory + at, &value, word_size(at, size));
  }
}

static uint64_t wrong_words(const char* memory, size_t size, uint64_t seed) {
  uint64_t wrong = 0;
  for (size_t at = 0; at < size; at += kWord) {
    uint64_t value = word(at, seed);
    wrong += memcmp(memory + at, &value, word_size(at, size)) != 0;
  }
  return wrong;
}

static void stamp(char* memory, size_t size, uint64_t number) {
  memcpy(memory, &number, kWord);
  memcpy(memory + size - kWord, &number, kWord);
}

static uint64_t wrong_stamps(const char* memory, size_t size, uint64_t number) {
  return (uint64_t)(memcmp(memory, &number, kWord) != 0) + (memcmp(memory + size - kWord, &number, kWord) != 0);
}

/* One message in each direction that there is. */
static void move(struct side* self, size_t size) {
  if (self->both_ways) {
    exchange(self, self->out, size, self->in, size);
  } else if (self->connects) {
    exchange(self, self->out, size, self->answer, kWord);
  } else {
    exchange(self, NULL, 0, self->in, size);
    exchange(self, self->answer, kWord, NULL, 0);
  }
}

static int sends(const struct side* self) { return self->both_ways || self->connects; }
static int receives(const struct side* self) { return self->both_ways || !self->connects; }

/* Words that this side got wrong of a message in which every word has a value of its own. */
static uint64_t check(struct side* self, size_t size, uint64_t seed) {
  if (sends(self)) fill(self->out, size, 2 * seed + (uint64_t)self->connects);
  memset(self->in, 0xEE, size);
  move(self, size);
  return receives(self) ? wrong_words(self->in, size, 2 * seed + (uint64_t)!self->connects) : 0;
}

static uint64_t run(struct side* self, size_t size, uint64_t messages) {
  uint64_t wrong = 0;
  alarm(kLimitS);
  for (uint64_t i = 0; i < messages; ++i) {
    if (sends(self)) stamp(self->out, size, i);
    if (!self->both_ways && !self->connects) stamp(self->answer, kWord, ~i);
    if (!self->both_ways && self->connects) memset(self->answer, 0, kWord);
    move(self, size);
    if (receives(self)) wrong += wrong_stamps(self->in, size, i);
    if (!self->both_ways && self->connects) wrong += wrong_stamps(self->answer, kWord, ~i) != 0;
  }
  return wrong;
}

/* ---- Measuring ----------------------------------------------------------------------------------------------- */

/* Times are means over the sides, the rest is the sum. */
static void join(struct side* self, struct note* note) {
  struct note theirs = *note;
  swap(self->control, &theirs, sizeof theirs);
  if (theirs.size != note->size || theirs.messages != note->messages)
    fail("the other side was started for other sizes", 0);
  note->wall_s = (note->wall_s + theirs.wall_s) / 2;
  note->processor_s += theirs.processor_s;
  note->wrong += theirs.wrong;
  note->lent += theirs.lent;
  note->copied += theirs.copied;
}

static struct note timed(struct side* self, size_t size, uint64_t messages) {
  struct note note = {.size = size, .messages = messages};
  struct carrier* carrier = &self->carrier;
  for (int i = 0; i < carrier->way->streams; ++i) carrier->streams[i].zero_copy_sends = carrier->streams[i].copied = 0;
  join(self, &note); /* both begin together */
  double processor_begin_s = processor_s(), begin_s = now_s();
  note.wrong = run(self, size, messages);
  note.wall_s = now_s() - begin_s;
  note.processor_s = processor_s() - processor_begin_s;
  for (int i = 0; i < carrier->way->streams; ++i) {
    note.lent += carrier->streams[i].zero_copy_sends;
    note.copied += carrier->streams[i].copied;
  }
  join(self, &note);
  return note;
}

/* So many that one of them which waits for a late acknowledgement, 40 ms, does not stand for all. */
static uint64_t fewest_messages(size_t size) {
  size_t fewest = kFewestBytes / size;
  return fewest < kFewest ? kFewest : fewest > kFewestOfSmall ? kFewestOfSmall : fewest;
}

/* The same number on both sides. Warms up: windows and buffers of the kernel grow. */
static uint64_t choose_messages(struct side* self, size_t size) {
  for (uint64_t messages = 1;; messages *= 2) {
    double wall_s = timed(self, size, messages).wall_s;
    if (wall_s < self->seconds / kWarmUpShare && messages < kMost) continue;
    double wanted = self->seconds / wall_s * (double)messages, fewest = (double)fewest_messages(size);
    return (uint64_t)(wanted < fewest ? fewest : wanted > kMost ? kMost : wanted);
  }
}

static void measure(struct side* self, size_t size) {
  uint64_t before = check(self, size, 1);
  struct note note = timed(self, size, choose_messages(self, size));
  struct note checked = {.size = size, .wrong = before + check(self, size, 2)};
  join(self, &checked);
  double bytes = (double)size * (double)note.messages * (self->both_ways ? 2 : 1);
  if (self->connects) return;
  printf("%zu %llu %.3f %.5f %llu %llu %llu\n", size, (unsigned long long)note.messages,
         note.wall_s * 1e6 / (double)note.messages, note.processor_s * 1e9 / bytes,
         (unsigned long long)(note.wrong + checked.wrong), (unsigned long long)note.lent,
         (unsigned long long)note.copied);
  fflush(stdout);
}

/* ---- The command line ---------------------------------------------------------------------------------------- */

static const struct way* const kWays[] = {
    kSocketWays,
#if defined(STREAM_WAYS_LIBURING)
    kUringWays,
#endif
};
enum { kKinds = sizeof kWays / sizeof *kWays };

#if !defined(STREAM_WAYS_LIBURING)
static const char* const kWithoutUring[] = {"uring", "uring-zc", "uring-zc-fixed"};
enum { kWithoutUrings = sizeof kWithoutUring / sizeof *kWithoutUring };
#endif

static void list_ways(void) {
  for (int kind = 0; kind < kKinds; ++kind)
    for (const struct way* way = kWays[kind]; way->name; ++way) printf("%s %s\n", way->name, way->what);
#if !defined(STREAM_WAYS_LIBURING)
  for (int i = 0; i < kWithoutUrings; ++i) printf("%s io_uring\n", kWithoutUring[i]);
#endif
}

static void lack(const char* name, const char* why) {
  fprintf(stderr, "stream_ways: %s: %s\n", name, why);
  exit(kLacking);
}

/* Ends the process where there is none. */
static const struct way* way_of(const char* name) {
  for (int kind = 0; kind < kKinds; ++kind) {
    for (const struct way* way = kWays[kind]; way->name; ++way) {
      if (strcmp(way->name, name) != 0) continue;
      const char* why = way->lacking ? way->lacking() : NULL;
      if (why) lack(name, why);
      return way;
    }
  }
#if !defined(STREAM_WAYS_LIBURING)
  for (int i = 0; i < kWithoutUrings; ++i)
    if (strcmp(kWithoutUring[i], name) == 0)
      lack(name, "it was built without liburing 2.3 or newer (Debian: liburing-dev)");
#endif
  fprintf(stderr, "stream_ways: there is no way '%s'; `stream_ways list` has them all\n", name);
  exit(2);
}

struct arguments {
  const struct way* way;
  int both_ways;
  double seconds;
  char** sizes;
  int size_count;
  size_t largest;
  char words[100];
};

static void usage(void) {
  fprintf(stderr, "usage: stream_ways list|local|listen ADDRESS PORT|connect ADDRESS PORT WAY one-way|both-ways "
                  "SECONDS BYTES...; messages have %d bytes at least\n", 2 * kWord);
  exit(2);
}

/* From the way on. */
static struct arguments parse(int argc, char** argv) {
  if (argc < 4) usage();
  struct arguments found = {.both_ways = strcmp(argv[1], "both-ways") == 0, .seconds = strtod(argv[2], NULL)};
  if ((!found.both_ways && strcmp(argv[1], "one-way") != 0) || !(found.seconds > 0 && found.seconds < 60)) usage();
  found.sizes = argv + 3;
  found.size_count = argc - 3;
  for (int i = 0; i < found.size_count; ++i) {
    size_t size = strtoull(found.sizes[i], NULL, 10);
    if (size < 2 * kWord) usage();
    if (size > found.largest) found.largest = size;
  }
  found.way = way_of(argv[0]);
  snprintf(found.words, sizeof found.words, "%s %s %s", argv[0], argv[1], argv[2]);
  return found;
}

static char* allocate(size_t size) {
  char* memory = aligned_alloc(4096, size);
  if (!memory) fail("out of memory; leave the largest sizes out", 0);
  memset(memory, 0, size);
  return memory;
}

/* What one side lacks both do. */
static void open_way(struct side* self) {
  const struct way* way = self->carrier.way;
  const char* why = way->open ? way->open(&self->carrier) : NULL;
  char theirs[kReasonBytes] = "";
  if (why) snprintf(theirs, sizeof theirs, "%s", why);
  swap(self->control, theirs, sizeof theirs);
  theirs[sizeof theirs - 1] = 0;
  if (why || theirs[0]) lack(way->name, why ? why : theirs);
}

/* `listener` or `address` is how the sides meet. */
static int run_side(const struct arguments* arguments, int listener, const char* address, const char* port) {
  struct side self = {.connects = listener < 0, .both_ways = arguments->both_ways, .seconds = arguments->seconds};
  struct carrier* carrier = &self.carrier;
  struct meeting meeting = {arguments->words, arguments->way->streams};
  int sockets[kMostStreams];
  alarm(kLimitS);
  self.control = listener < 0 ? meet_with(address, port, &meeting, sockets) : meet_at(listener, &meeting, sockets);
  for (int i = 0; i < meeting.streams; ++i) carrier->streams[i].socket = sockets[i];
  size_t room = (arguments->largest + 4095) / 4096 * 4096;
  carrier->way = arguments->way;
  carrier->memory_size = 2 * room + 4096;
  carrier->memory = allocate(carrier->memory_size);
  self.out = carrier->memory;
  self.in = self.out + room;
  self.answer = self.in + room;
  open_way(&self);
  for (int i = 0; i < arguments->size_count; ++i) measure(&self, strtoull(arguments->sizes[i], NULL, 10));
  if (carrier->way->close) carrier->way->close(carrier);
  for (int i = 0; i < meeting.streams; ++i) close(sockets[i]);
  close(self.control);
  free(carrier->memory);
  return 0;
}

static int run_both(const struct arguments* arguments) {
  char port[16];
  int listener = listen_at("127.0.0.1", "0");
  port_of(listener, port, sizeof port);
  pid_t parent = getpid(), child = fork();
  if (child < 0) fail("cannot fork", 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) return 1;
    close(listener);
    return run_side(arguments, -1, "127.0.0.1", port);
  }
  int status = run_side(arguments, listener, NULL, NULL), ended = 0;
  close(listener);
  return waitpid(child, &ended, 0) != child || ended != 0 ? 1 : status;
}

int main(int argc, char** argv) {
  signal(SIGALRM, is_late);
  const char* what = argc < 2 ? "" : argv[1];
  if (strcmp(what, "list") == 0 && argc == 2) return list_ways(), 0;
  int between = strcmp(what, "local") == 0 ? 2 : 4;
  if (between > argc || (between == 4 && strcmp(what, "listen") != 0 && strcmp(what, "connect") != 0)) usage();
  struct arguments arguments = parse(argc - between, argv + between);
  if (between == 2) return run_both(&arguments);
  if (strcmp(what, "connect") == 0) return run_side(&arguments, -1, argv[2], argv[3]);
  int listener = listen_at(argv[2], argv[3]);
  int status = run_side(&arguments, listener, NULL, NULL);
  close(listener);
  return status;
}
