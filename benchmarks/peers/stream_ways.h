/* Ways to move messages over TCP that stream_ways.c measures, and what its files share. */
#ifndef TUTTI_BENCHMARKS_PEERS_STREAM_WAYS_H
#define TUTTI_BENCHMARKS_PEERS_STREAM_WAYS_H

#include <stddef.h>
#include <stdint.h>

enum {
  kMostStreams = 4,
  kLeastZeroCopy = 1024,   /* bytes; what is less is always copied */
  kZeroCopyBytes = 1 << 20 /* at once at most: an ordinary user may have 8 MiB locked */
};

/* One connection, and what it still has to move. */
struct stream {
  int socket;
  const char* out;
  size_t out_left;
  char* in;
  size_t in_left;
  unsigned lent;            /* zero-copy sends whose memory the kernel may still read */
  int starved;              /* the kernel takes no zero-copy send before it gives memory back */
  uint64_t zero_copy_sends; /* so far */
  uint64_t copied;          /* of them: those that the kernel copied after all */
};

/* One end of the connections between two processes. */
struct carrier {
  const struct way* way;
  struct stream streams[kMostStreams];
  char* memory; /* all that is ever sent, and where all is received */
  size_t memory_size;
  void* state; /* the way's */
};

/* One way to do it. */
struct way {
  const char* name;
  const char* what;
  int streams;
  /* Why this machine cannot do it, in one sentence; NULL if it can. NULL for what every machine can do. */
  const char* (*lacking)(void);
  const char* (*open)(struct carrier* carrier); /* returns the same; may be NULL, and so may close */
  void (*close)(struct carrier* carrier);
  /* Moves all that is left in the streams. Afterwards the kernel reads none of the memory any more. */
  void (*exchange)(struct carrier* carrier);
};

/* Each ends with an entry without a name. */
extern const struct way kSocketWays[];
extern const struct way kUringWays[];

/* ---- stream_meeting.c ---- */

/* The two ends begin with the same words: the way and what is measured. */
struct meeting {
  const char* words;
  int streams;
};

/* A socket that listens; `port` may be "0". */
int listen_at(const char* address, const char* port);
/* Either returns a connection for control, and puts the streams into `sockets`. */
int meet_at(int listener, const struct meeting* meeting, int* sockets);
int meet_with(const char* address, const char* port, const struct meeting* meeting, int* sockets);
/* The port of a socket that listens, as text. */
void port_of(int listener, char* text, size_t size);
/* Sends `size` bytes on the control connection, and gets the other side's into their place. */
void swap(int control, void* bytes, size_t size);

/* ---- stream_ways.c ---- */

/* Ends the process with one sentence and what errno says, if it is not 0. */
_Noreturn void fail(const char* sentence, int error);

#endif
