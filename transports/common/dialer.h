// Connects to a peer that may be reachable at several addresses: tries all at once and keeps the best one that is proven to
// lead to that very rank. An address that many hosts have (a container bridge) may answer and still be the wrong rank.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "transports/common/handshake.h"

namespace tutti {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size_bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

struct DialTarget {
  SocketAddress address;
  SocketAddress source;       // bound before connecting; size 0: the kernel chooses
  int type = SOCK_STREAM;
  std::string text;           // for errors: "10.0.0.2:4711"
};

// `candidates` are in order of preference. `admit` looks at every connection before a byte is sent. Errors: kTimeout or
// kRemote, with what happened at each address; kAborted when `give_up` (looked at every 50 ms) says so.
Result<Fd> dial(const LinkIdentity& self, int peer, std::span<const DialTarget> candidates,
                const std::function<Status(int fd)>& admit, Deadline deadline, const std::function<bool()>& give_up);

}  // namespace tutti
