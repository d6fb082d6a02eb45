// Takes incoming data connections of one rank and hands each, once proven, to the Link it belongs to. Whoever
// connects a Link does the work for all, so a connection that arrives for another Link is proven and kept. Strangers
// (garbage, port scanners, connections that say nothing) cost a slot for a while and nothing else. Nothing here
// blocks; one thread at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/progress.h"
#include "transports/common/handshake.h"
#include "transports/transport.h"

namespace tutti {

class Acceptor {
 public:
  // Looks at a fresh connection before a byte is read; an error closes it.
  using Admit = std::function<Status(int fd)>;

  // `listeners` are bound, listening and non-blocking.
  Acceptor(const LinkIdentity& self, std::vector<Fd> listeners, Admit admit)
      : self_(self), listeners_(std::move(listeners)), admit_(std::move(admit)) {}

  // Accepts and proves what has come. kMoved: watch() now adds other things. Errors: kSystem.
  Result<Progress> advance();
  // The proven connection from `peer`; none if it is not there.
  Fd take(int peer);
  // What to wait for until advance() can do more.
  void watch(WaitSet& waits) const;
  // How many were turned away so far and why the last one was, for the sentence at a deadline; "" if nobody was.
  std::string report() const;

 private:
  struct Pending {
    Fd fd;
    std::unique_ptr<Handshake> handshake;
    Deadline deadline;
  };

  bool advance_pending();
  // One of them. It has no fd any more once it is proven or turned away.
  void advance_one(Pending& pending);
  // Before another one comes: one less of those that have not proven who they are, where there are too many.
  void bound_strangers();
  // True when somebody came.
  Result<bool> accept_from(int listener);
  void turn_away(std::string_view why);

  const LinkIdentity self_;
  const std::vector<Fd> listeners_;
  const Admit admit_;

  std::map<int, Fd> proven_;       // by peer
  std::vector<Pending> pending_;
  int turned_away_ = 0;
  std::string last_reason_;
};

}  // namespace tutti
