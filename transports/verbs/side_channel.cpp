#include "transports/verbs/side_channel.h"

#include <sys/socket.h>

#include <cerrno>

namespace tutti {
namespace {

constexpr int kDrainReads = 64;

}  // namespace

VerbsSideChannel::~VerbsSideChannel() {
  ::shutdown(socket_.get(), SHUT_WR);
  // Closing with unread bytes would reset the connection and take away from the peer what it has not read yet.
  for (int i = 0; i < kDrainReads && ::recv(socket_.get(), incoming_.data(), incoming_.size(), MSG_DONTWAIT) > 0; ++i) {
  }
}

Status VerbsSideChannel::send(const SideMessage& message) {
  unsent_.push_back({encode(message)});
  return flush();
}

Status VerbsSideChannel::flush() {
  while (!unsent_.empty()) {
    Unsent& next = unsent_.front();
    ssize_t sent = ::send(socket_.get(), next.bytes.data() + next.sent, next.bytes.size() - next.sent,
                          MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) return {};
    // The connection is gone. What the peer said last may still wait to be read: receive() reports.
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return {};
    if (sent < 0) return system_error(errno, "cannot write to the connection");
    next.sent += static_cast<size_t>(sent);
    if (next.sent == next.bytes.size()) unsent_.pop_front();
  }
  return {};
}

Result<std::optional<SideMessage>> VerbsSideChannel::receive() {
  while (received_ < incoming_.size()) {
    ssize_t got = ::recv(socket_.get(), incoming_.data() + received_, incoming_.size() - received_, MSG_DONTWAIT);
    if (got > 0) {
      received_ += static_cast<size_t>(got);
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<SideMessage>();
    if (got == 0) return error(Code::kRemote, "the peer has died, aborted or closed the connection");
    if (errno == ECONNRESET || errno == EPIPE) return error(Code::kRemote, "the peer has died or reset the connection");
    return system_error(errno, "the connection broke");
  }
  received_ = 0;
  return std::optional(TUTTI_TRY(parse_side_message(incoming_)));
}

}  // namespace tutti
