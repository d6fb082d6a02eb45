// The connection by which two ends of a verbs link met: it carries what is rare, and its end tells of the peer's.
#pragma once

#include <deque>
#include <optional>

#include "base/fd.h"
#include "transports/verbs/wire.h"

namespace tutti {

class VerbsSideChannel {
 public:
  explicit VerbsSideChannel(Fd socket) : socket_(std::move(socket)) {}
  // What was sent before still reaches the peer.
  ~VerbsSideChannel();
  VerbsSideChannel(const VerbsSideChannel&) = delete;
  VerbsSideChannel& operator=(const VerbsSideChannel&) = delete;

  int fd() const { return socket_.get(); }
  // Is always taken; what the socket does not take at once goes with flush().
  Status send(const SideMessage& message);
  Status flush();
  bool has_unsent() const { return !unsent_.empty(); }
  // The next message; none when none has come. Errors: kRemote at the end of the connection.
  Result<std::optional<SideMessage>> receive();

 private:
  Fd socket_;
  struct Unsent {
    SideBytes bytes;
    size_t sent = 0;
  };
  std::deque<Unsent> unsent_;
  SideBytes incoming_{};
  size_t received_ = 0;
};

}  // namespace tutti
