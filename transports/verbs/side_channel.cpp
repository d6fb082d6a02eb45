#include "transports/verbs/side_channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
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
  unsent_.push_back({.bytes = encode(message), .payload = {}});
  return flush();
}

Result<PutResult> VerbsSideChannel::send_data(const SideData& data, std::span<const std::byte> payload, uint64_t put,
                                              const DeviceMemory* device) {
  if (unsent_.size() >= kMostUnsentData) return PutResult::kFull;
  bool is_behind = has_unsent();
  SideData whole = data;
  whole.payload_bytes = payload.size();
  std::vector<std::byte> copied(device == nullptr ? 0 : payload.size());
  if (device != nullptr) {
    TUTTI_TRY(device->read(copied, payload.data()));
    payload = copied;
  }
  unsent_.push_back({.bytes = encode(SideMessage(whole)), .payload = payload, .put = put, .copied = std::move(copied)});
  if (!is_behind) TUTTI_TRY(flush());
  return PutResult::kDone;
}

uint64_t VerbsSideChannel::oldest_put() const {
  uint64_t oldest = UINT64_MAX;
  for (const Unsent& each : unsent_) oldest = each.put != 0 ? std::min(oldest, each.put) : oldest;
  return oldest;
}

Status VerbsSideChannel::flush() {
  while (!unsent_.empty()) {
    Unsent& next = unsent_.front();
    size_t head = std::min(next.sent, next.bytes.size()), rest = next.sent - head;
    std::array<iovec, 2> parts = {{{next.bytes.data() + head, next.bytes.size() - head},
                                   {const_cast<std::byte*>(next.payload.data() + rest), next.payload.size() - rest}}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) return {};
    // The connection is gone. What the peer said last may still wait to be read: receive() reports.
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return {};
    if (sent < 0) return system_error(errno, "cannot write to the connection");
    next.sent += static_cast<size_t>(sent);
    if (next.sent == next.size()) unsent_.pop_front();
  }
  return {};
}

Result<std::optional<SideMessage>> VerbsSideChannel::receive() {
  while (received_ < incoming_.size()) {
    size_t got = TUTTI_TRY(receive_some(std::span(incoming_).subspan(received_)));
    if (got == 0) return std::optional<SideMessage>();
    received_ += got;
  }
  received_ = 0;
  return std::optional(TUTTI_TRY(parse_side_message(incoming_)));
}

Result<bool> VerbsSideChannel::receive_payload(std::span<std::byte>& to) {
  while (!to.empty()) {
    size_t got = TUTTI_TRY(receive_some(to));
    if (got == 0) return false;
    to = to.subspan(got);
  }
  return true;
}

Result<size_t> VerbsSideChannel::receive_some(std::span<std::byte> to) {
  while (true) {
    ssize_t got = ::recv(socket_.get(), to.data(), to.size(), MSG_DONTWAIT);
    if (got > 0) return static_cast<size_t>(got);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return size_t{0};
    if (got == 0) return error(Code::kRemote, "the peer has died, aborted or closed the connection");
    if (errno == ECONNRESET || errno == EPIPE) return error(Code::kRemote, "the peer has died or reset the connection");
    return system_error(errno, "the connection broke");
  }
}

void VerbsSideChannel::bound_silence(int ms) {
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

void VerbsSideChannel::finish(Deadline deadline) {
  auto first = std::find_if(unsent_.begin(), unsent_.end(), [](const Unsent& each) { return !each.payload.empty(); });
  unsent_.erase(first, unsent_.end());
  while (has_unsent() && !deadline.passed() && flush().ok() && has_unsent()) {
    pollfd writable{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&writable, 1, deadline.left_ms()) < 0 || (writable.revents & (POLLERR | POLLHUP)) != 0) return;
  }
}

}  // namespace tutti
