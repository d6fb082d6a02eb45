// Connects to one process by trying its endpoints in turn: reachability is proven by the peer's proof, not guessed from
// names.
#pragma once

#include <optional>
#include <vector>

#include "bootstrap/channel.h"
#include "bootstrap/endpoint.h"
#include "bootstrap/tls.h"

namespace tutti::bootstrap {

class Dialer {
 public:
  // `tls` may be null when all endpoints are unix sockets, and must outlive the Dialer. `greeting` is sent on every new
  // connection.
  Dialer(std::vector<Endpoint> endpoints, TlsContext* tls, std::string peer, Frame greeting)
      : endpoints_(std::move(endpoints)), tls_(tls), peer_(std::move(peer)), greeting_(std::move(greeting)) {}

  // Goes on as far as is possible now. True when a peer has proven itself and the greeting is on its way. Does not
  // block.
  bool advance();
  // An answer to the greeting, or nullopt: not yet. A failing connection is given up, and advance() tries the next
  // endpoint.
  std::optional<Frame> answer();

  // After advance() was true.
  Channel take();
  bool over_network() const { return !endpoints_[current_].is_unix(); }

  // For poll(2); fd -1: nothing but the time.
  int fd() const { return channel_ ? channel_->fd() : -1; }
  short events() const { return channel_ ? channel_->events() : short{0}; }
  int process_fd() const { return channel_ ? channel_->process_fd() : -1; }
  Clock::time_point wake_at() const { return channel_ ? attempt_.at() : pause_.at(); }

  // How often all endpoints have failed, and the most telling failure so far.
  int rounds() const { return rounds_; }
  const Status& failure() const { return failure_; }

 private:
  void start_attempt();
  void give_up(Status why);

  std::vector<Endpoint> endpoints_;
  TlsContext* tls_;
  std::string peer_;
  Frame greeting_;

  size_t current_ = 0;
  std::optional<Channel> channel_;
  Deadline attempt_ = Deadline::never();
  Deadline pause_ = Deadline::after_ms(0);
  int rounds_ = 0;
  Status failure_;
};

}  // namespace tutti::bootstrap
