#include "transports/tcp/frame_sender.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tutti {
namespace {

constexpr size_t kMostParts = 32;  // of one system call: 16 frames
// So much is joined in one place rather than handed to the kernel in several: copying it takes less than a second part.
constexpr size_t kMostJoinedBytes = 2048;

// What is left of a frame of which `sent` bytes are gone; returns the number of parts.
size_t parts_of(const FrameHeader& header, std::span<const std::byte> payload, uint64_t sent, iovec* parts) {
  size_t count = 0;
  auto add = [&](const std::byte* data, size_t size) {
    if (size > 0) parts[count++] = {const_cast<std::byte*>(data), size};
  };
  if (sent < header.size()) {
    add(header.data() + sent, header.size() - sent);
    add(payload.data(), payload.size());
  } else {
    add(payload.data() + (sent - header.size()), payload.size() - (sent - header.size()));
  }
  return count;
}

// All of the parts one after the other in `place`; nowhere if that has no room for them.
iovec join(std::span<const iovec> parts, std::span<std::byte> place) {
  size_t size = 0;
  for (const iovec& part : parts) {
    if (part.iov_len > place.size() - size) return {};
    std::memcpy(place.data() + size, part.iov_base, part.iov_len);
    size += part.iov_len;
  }
  return {place.data(), size};
}

}  // namespace

FrameSender::FrameSender() : kept_(std::make_unique<Kept[]>(kMostKept)) {}

Result<PutResult> FrameSender::put(const Frame& frame, std::span<const std::byte> payload) {
  if (kept_puts_ == kMostKeptPuts || count_ == kMostKept) return PutResult::kFull;
  return send_or_keep({.header = encode(frame), .payload = payload, .is_put = true});
}

Result<PutResult> FrameSender::signal(const Frame& frame) {
  if (count_ == kMostKept) return PutResult::kFull;
  return send_or_keep({.header = encode(frame), .payload = {}});
}

Result<PutResult> FrameSender::signal_soon(const Frame& frame) {
  if (count_ == kMostKept) return PutResult::kFull;
  keep({.header = encode(frame), .payload = {}, .is_urgent = false});
  return PutResult::kDone;
}

void FrameSender::keep(const Kept& kept) {
  if (count_ == 0) have_waited_ = false;
  at(count_) = kept;
  ++count_;
  if (kept.is_put) ++kept_puts_;
  if (kept.is_urgent) ++urgent_;
}

Result<PutResult> FrameSender::send_or_keep(const Kept& kept) {
  bool was_behind = is_behind();
  keep(kept);
  if (!was_behind) TUTTI_TRY(flush_kept());
  return PutResult::kDone;
}

Status FrameSender::control(const Frame& frame) {
  control_.push_back({.header = encode(frame), .payload = {}});
  return flush_all();
}

void FrameSender::leave() {
  bool inside_a_frame = count_ > 0 && at(0).sent > 0;
  if (inside_a_frame && kept_puts_ > 0) return;
  control_.push_back({.header = encode({.kind = Frame::Kind::kLeave, .line = {}}), .payload = {}});
  (void)(kept_puts_ > 0 ? flush_control() : flush_all());
}

Status FrameSender::flush() {
  bool have_waited = std::exchange(have_waited_, true);
  return is_behind() || have_waited ? flush_all() : Status();
}

Status FrameSender::flush_all() {
  bool inside_a_frame = count_ > 0 && at(0).sent > 0;
  if (inside_a_frame) TUTTI_TRY(flush_kept());
  if (!control_.empty() && (count_ == 0 || at(0).sent == 0)) TUTTI_TRY(flush_control());
  if (control_.empty() && count_ > 0) TUTTI_TRY(flush_kept());
  return {};
}

Status FrameSender::flush_control() {
  while (!control_.empty()) {
    Kept& next = control_.front();
    std::array<iovec, 2> parts;
    size_t used = parts_of(next.header, {}, next.sent, parts.data());
    size_t sent = TUTTI_TRY(send(std::span(parts).first(used)));
    next.sent += sent;
    if (next.sent < next.size()) return {};
    control_.pop_front();
  }
  return {};
}

Status FrameSender::flush_kept() {
  while (count_ > 0) {
    std::array<iovec, kMostParts> parts;
    size_t used = 0;
    for (size_t i = 0; i < count_ && used + 2 <= kMostParts; ++i) {
      used += parts_of(at(i).header, at(i).payload, at(i).sent, parts.data() + used);
    }
    size_t sent = TUTTI_TRY(send(std::span(parts).first(used)));
    if (sent == 0) return {};
    while (count_ > 0 && sent > 0) {
      Kept& next = at(0);
      size_t share = std::min<uint64_t>(sent, next.size() - next.sent);
      next.sent += share;
      sent -= share;
      if (next.sent < next.size()) break;
      if (next.is_put) {
        --kept_puts_;
        ++puts_completed_;
      }
      if (next.is_urgent) --urgent_;
      first_ = (first_ + 1) % kMostKept;
      --count_;
    }
  }
  return {};
}

Result<size_t> FrameSender::send(std::span<iovec> parts) {
  std::array<std::byte, kMostJoinedBytes> joined;
  iovec whole = parts.size() == 1 ? parts[0] : join(parts, joined);
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  while (true) {
    constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
    ssize_t sent = whole.iov_base != nullptr ? ::send(socket_, whole.iov_base, whole.iov_len, kFlags)
                                             : ::sendmsg(socket_, &message, kFlags);
    if (sent >= 0) return static_cast<size_t>(sent);
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return size_t{0};
    // The connection is gone. What the peer said last may still wait to be read: the reader reports.
    if (errno == EPIPE || errno == ECONNRESET) return size_t{0};
    if (errno != EINTR) return system_error(errno, "cannot write to the connection");
  }
}

}  // namespace tutti
