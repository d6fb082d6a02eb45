#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "stream_ways.h"

enum { kTries = 2000, kPauseNs = 10000000, kWordsBytes = 128, kHelloMagic = 0x73747265 };

/* What each connection begins with. */
struct hello {
  uint32_t magic;
  uint32_t index; /* 0: control; 1: the first stream */
  char words[kWordsBytes];
};

static struct addrinfo* lookup(const char* address, const char* port) {
  struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found = NULL;
  if (getaddrinfo(address, port, &wanted, &found) != 0)
    fail("the address must be of IPv4 or IPv6, and the port a number", 0);
  return found;
}

int listen_at(const char* address, const char* port) {
  struct addrinfo* place = lookup(address, port);
  int one = 1, listener = socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      bind(listener, place->ai_addr, place->ai_addrlen) != 0 || listen(listener, kMostStreams + 1) != 0)
    fail("cannot listen there; take another address or port", errno);
  freeaddrinfo(place);
  return listener;
}

void port_of(int listener, char* text, size_t size) {
  struct sockaddr_storage address;
  socklen_t length = sizeof address;
  if (getsockname(listener, (struct sockaddr*)&address, &length) != 0 ||
      getnameinfo((struct sockaddr*)&address, length, NULL, 0, text, (socklen_t)size, NI_NUMERICSERV) != 0)
    fail("cannot find the port", errno);
}

static void send_all(int socket, const void* bytes, size_t size) {
  const char* at = bytes;
  while (size > 0) {
    ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) fail("the other side has gone", errno);
    at += sent;
    size -= (size_t)sent;
  }
}

static void receive_all(int socket, void* bytes, size_t size) {
  char* at = bytes;
  while (size > 0) {
    ssize_t received = recv(socket, at, size, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) fail("the other side has gone", received < 0 ? errno : 0);
    at += received;
    size -= (size_t)received;
  }
}

void swap(int control, void* bytes, size_t size) {
  send_all(control, bytes, size);
  receive_all(control, bytes, size);
}

static struct hello hello_of(const struct meeting* meeting, int index) {
  struct hello hello = {.magic = kHelloMagic, .index = (uint32_t)index};
  snprintf(hello.words, sizeof hello.words, "%s", meeting->words);
  return hello;
}

static void set_no_delay(int socket) {
  int one = 1;
  if (setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) fail("cannot set TCP_NODELAY", errno);
}

int meet_at(int listener, const struct meeting* meeting, int* sockets) {
  int found[kMostStreams + 1];
  memset(found, -1, sizeof found);
  for (int i = 0; i <= meeting->streams; ++i) {
    int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (socket < 0) fail("cannot accept a connection", errno);
    struct hello theirs;
    receive_all(socket, &theirs, sizeof theirs);
    if (theirs.magic != kHelloMagic || theirs.index > (uint32_t)meeting->streams || found[theirs.index] >= 0)
      fail("who has connected is not this program", 0);
    struct hello mine = hello_of(meeting, (int)theirs.index);
    if (memcmp(&theirs, &mine, sizeof mine) != 0) fail("the other side was started for another measurement", 0);
    set_no_delay(socket);
    found[theirs.index] = socket;
  }
  memcpy(sockets, found + 1, (size_t)meeting->streams * sizeof *sockets);
  return found[0];
}

/* Before the first connection the other side may not listen yet. */
static int connected(const struct addrinfo* place, int is_first) {
  for (int i = 0; i < (is_first ? kTries : 1); ++i) {
    int connection = socket(place->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0) fail("cannot make a socket", errno);
    if (connect(connection, place->ai_addr, place->ai_addrlen) == 0) return connection;
    close(connection);
    nanosleep(&(struct timespec){.tv_nsec = kPauseNs}, NULL);
  }
  fail(is_first ? "cannot connect: nobody listens there" : "the other side has gone", errno);
}

int meet_with(const char* address, const char* port, const struct meeting* meeting, int* sockets) {
  struct addrinfo* place = lookup(address, port);
  int control = -1;
  for (int i = 0; i <= meeting->streams; ++i) {
    int socket = connected(place, i == 0);
    struct hello hello = hello_of(meeting, i);
    send_all(socket, &hello, sizeof hello);
    set_no_delay(socket);
    if (i == 0)
      control = socket;
    else
      sockets[i - 1] = socket;
  }
  freeaddrinfo(place);
  return control;
}
