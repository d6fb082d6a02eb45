// The connection by which two ends of a verbs link met: it carries what is rare, its end tells of the peer's, and when
// no queue pair is left it carries the data.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "base/deadline.h"
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

  // Data, with a payload that must stay until oldest_put() is past this put's number; 0: it stays anyway. `device`: of
  // a payload that is a GPU's. kFull: nothing was taken.
  Result<PutResult> send_data(const SideData& data, std::span<const std::byte> payload, uint64_t put,
                              const DeviceMemory* device = nullptr);
  // The least number of a put whose payload has not left; UINT64_MAX if there is none.
  uint64_t oldest_put() const;
  // Behind a SideData: its payload comes into `to`, before the next message. True once all has come.
  Result<bool> receive_payload(std::span<std::byte>& to);
  // What has been sent and is not acknowledged within so long ends the connection; 0: that is left to others.
  void bound_silence(int ms);
  // Before the end: sends what is left, but for payloads, whose memory may be gone.
  void finish(Deadline deadline);

 private:
  static constexpr size_t kMostUnsentData = 64;

  Fd socket_;
  struct Unsent {
    SideBytes bytes;
    std::span<const std::byte> payload;
    uint64_t put = 0;
    std::vector<std::byte> copied = {};  // the payload, where it is a GPU's
    size_t sent = 0;         // of both
    size_t size() const { return bytes.size() + payload.size(); }
  };
  // Bytes that came; 0: none now.
  Result<size_t> receive_some(std::span<std::byte> to);
  std::deque<Unsent> unsent_;
  SideBytes incoming_{};
  size_t received_ = 0;
};

}  // namespace tutti
