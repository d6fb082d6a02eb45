// Lets ranks of this communicator in through a rank's listeners, and nobody else.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <vector>

#include "bootstrap/channel.h"
#include "bootstrap/messages.h"
#include "bootstrap/sockets.h"
#include "bootstrap/tls.h"

namespace tutti::bootstrap {

// A neighbour's connection.
struct NewLink {
  Channel channel;
  bool over_network = false;
  std::string who;  // "pid 10 on node7"
};

class Doorman {
 public:
  // A visitor must send `expected` with its own rank as `from`. `tls` must outlive the Doorman.
  Doorman(std::vector<Listener> listeners, TlsContext* tls, LinkHello expected)
      : listeners_(std::move(listeners)), tls_(tls), expected_(expected) {}

  // Goes on without blocking. `admit(rank)` answers whether that rank is awaited; every one that is is handed to
  // `enter` with an answer already queued.
  void advance(const std::function<bool(int rank)>& admit, const std::function<void(int rank, NewLink link)>& enter);
  // Adds what to poll for, and lowers `next` to the next deadline.
  void watch(std::vector<pollfd>& fds, Clock::time_point& next) const;

 private:
  struct Visitor {
    Channel channel;
    bool over_network;
    Deadline deadline;
  };
  void accept();

  std::vector<Listener> listeners_;
  TlsContext* tls_;
  LinkHello expected_;
  std::list<Visitor> visitors_;
};

}  // namespace tutti::bootstrap
