// Takes incoming data connections of one rank and hands each, once proven, to the Link it belongs to. There is no thread of
// its own: whoever waits in take() does the work for all, so a connection that arrives for another Link is proven and kept.
// Strangers (garbage, port scanners, connections that say nothing) cost a slot for a while and nothing else.
#pragma once

#include <poll.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/fd.h"
#include "transports/common/handshake.h"

namespace tutti {

class Acceptor {
 public:
  // Looks at a fresh connection before a byte is read; an error closes it.
  using Admit = std::function<Status(int fd)>;

  // `listeners` are bound, listening and non-blocking.
  Acceptor(LinkIdentity self, std::vector<Fd> listeners, Admit admit)
      : self_(std::move(self)), listeners_(std::move(listeners)), admit_(std::move(admit)) {}

  // The proven connection from `peer`. Blocks until it is there, `deadline`, or `give_up` (looked at every 50 ms). Any thread.
  // Errors: kTimeout, which tells who was turned away meanwhile; kAborted; kSystem.
  Result<Fd> take(int peer, Deadline deadline, const std::function<bool()>& give_up);

 private:
  struct Pending {
    Fd fd;
    std::unique_ptr<Handshake> handshake;
    Deadline deadline;
  };

  // One round of work for all: at most 50 ms. Only by the thread that has set driving_.
  Status drive(Deadline deadline);
  Status accept_from(int listener);
  void advance(size_t first_event, const std::vector<pollfd>& events);
  void turn_away(std::string_view why);
  Status timeout() const;

  const LinkIdentity self_;
  const std::vector<Fd> listeners_;
  const Admit admit_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool driving_ = false;
  std::map<int, Fd> proven_;       // by peer
  std::vector<Pending> pending_;   // the driver's
  int turned_away_ = 0;
  std::string last_reason_;
};

}  // namespace tutti
