// One Link's way to its connection, whether its rank dials or accepts. Nothing here blocks.
#pragma once

#include <memory>
#include <string>

#include "base/fd.h"
#include "base/progress.h"
#include "transports/common/acceptor.h"
#include "transports/common/dialer.h"

namespace tutti {

class Connector {
 public:
  // With a dialer: dials; without: accepts what comes from `peer`. `acceptor` is the rank's and outlives this.
  Connector(int peer, Acceptor& acceptor, std::unique_ptr<Dialer> dialer)
      : peer_(peer), acceptor_(acceptor), dialer_(std::move(dialer)) {}

  bool accepts() const { return dialer_ == nullptr; }
  // kDone: take() has a proven connection. An accepting end may go on, for a peer that comes again. kMoved: watch() now
  // adds other things.
  Result<Progress> advance();
  Fd take() { return std::move(connection_); }
  // What to wait for until advance() can do more.
  void watch(WaitSet& waits) const;
  // What stood in the way so far; "" if nothing but the peer.
  std::string report() const { return accepts() ? acceptor_.report() : dialer_->report(); }

 private:
  const int peer_;
  Acceptor& acceptor_;
  const std::unique_ptr<Dialer> dialer_;
  Fd connection_;
};

}  // namespace tutti
