// Connects to a peer that may be reachable at several addresses: tries all at once and keeps the best one that is
// proven to lead to that very rank. An address that many hosts have (a container bridge) may answer and still be the
// wrong rank. An address whose connection ends during the handshake is dialled again, after pauses that grow, for as
// long as the caller goes on: who is late, or one of too many, is not turned away for good, nor who ends it without a
// word. What is wrong stays so: a refused connection, another token, another rank or job, who is not tutti. Nothing
// here blocks; one thread at a time.
#pragma once

#include <sys/socket.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/progress.h"
#include "transports/common/handshake.h"
#include "transports/transport.h"

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

class Dialer {
 public:
  // Looks at every connection before a byte is sent; an error closes it.
  using Admit = std::function<Status(int fd)>;

  // `candidates` are in order of preference. `self` is borrowed.
  Dialer(const LinkIdentity& self, int peer, const std::vector<DialTarget>& candidates, const Admit& admit);
  ~Dialer();

  // kDone: take() has the connection. kMoved: watch() now adds other things. Errors: kRemote, with what happened at
  // each address, when none is left to try.
  Result<Progress> advance();
  Fd take() { return std::move(connection_); }
  // What to wait for until advance() can do more. A grace that is over by then is not in it: advance() once more before
  // a sleep.
  void watch(WaitSet& waits) const;
  // The addresses that do not answer or ended connections, for the sentence at a deadline; "" if the peer itself is
  // what keeps waiting.
  std::string report() const;

 private:
  class Attempt;

  // The attempt to keep, if that can be said already.
  Attempt* winner() const;
  void begin_grace();
  Deadline grace_of(const Attempt& attempt) const;

  std::vector<std::unique_ptr<Attempt>> attempts_;
  bool grace_began_ = false;  // when one was proven: preferred ones still have a while then,
  Deadline grace_ = Deadline::never();            // where nobody has answered yet,
  Deadline connected_grace_ = Deadline::never();  // and where somebody has
  Fd connection_;
};

}  // namespace tutti
