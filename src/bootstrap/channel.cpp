#include "bootstrap/channel.h"

#include <poll.h>

#include <algorithm>

namespace tutti::bootstrap {
namespace {

constexpr size_t kHeader = 8;
constexpr size_t kReadSize = 64 * 1024;

}  // namespace

void FrameParser::add(ByteView bytes) {
  if (used_ == buffer_.size()) {
    buffer_.clear();
    used_ = 0;
  }
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
}

Result<std::optional<Frame>> FrameParser::next() {
  ByteView rest = ByteView(buffer_).subspan(used_);
  if (rest.size() < kHeader) return std::optional<Frame>();
  Reader in(rest);
  size_t size = in.u32();
  uint32_t type = in.u32();
  if (size > max_payload_) {
    return error(Code::kRemote,
                 "it announced a message of {} bytes where at most {} are allowed: it is not a tutti process", size,
                 max_payload_);
  }
  if (rest.size() - kHeader < size) return std::optional<Frame>();
  ByteView payload = in.bytes(size);
  Frame frame{type, Bytes(payload.begin(), payload.end())};
  used_ += kHeader + size;
  // Moving the rest down now and then keeps the buffer as small as what is unread.
  if (used_ > kReadSize && used_ > buffer_.size() / 2) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(used_));
    used_ = 0;
  }
  return std::optional<Frame>(std::move(frame));
}

void Channel::queue(uint32_t type, ByteView payload) {
  if (sent_ == out_.size()) {
    out_.clear();
    sent_ = 0;
  }
  Writer header;
  header.u32(static_cast<uint32_t>(payload.size()));
  header.u32(type);
  out_.insert(out_.end(), header.view().begin(), header.view().end());
  out_.insert(out_.end(), payload.begin(), payload.end());
}

Result<bool> Channel::flush() {
  while (sent_ < out_.size()) {
    Result<Moved> moved = stream_->write(ByteView(out_).subspan(sent_));
    if (!moved.ok()) return std::move(moved).status().within(peer_);
    if (moved->closed) {
      closed_ = true;
      return error(Code::kRemote, "{} closed the connection", peer_);
    }
    if (moved->bytes == 0) return false;
    sent_ += moved->bytes;
  }
  return true;
}

Result<std::optional<Frame>> Channel::next() {
  for (;;) {
    Result<std::optional<Frame>> frame = parser_.next();
    if (!frame.ok()) return std::move(frame).status().within(peer_);
    if (frame->has_value()) return frame;
    if (closed_) return error(Code::kRemote, "{} closed the connection", peer_);
    std::array<std::byte, kReadSize> buffer;
    Result<Moved> moved = stream_->read(buffer);
    if (!moved.ok()) return std::move(moved).status().within(peer_);
    if (moved->closed) closed_ = true;
    if (moved->bytes == 0 && !moved->closed) return std::optional<Frame>();
    parser_.add(ByteView(buffer).first(moved->bytes));
  }
}

short Channel::events() const {
  return static_cast<short>(POLLIN | (unsent() > 0 || stream_->wants_write() ? POLLOUT : 0));
}

Status Channel::flush(Deadline deadline) {
  while (!TUTTI_TRY(flush())) {
    if (deadline.passed()) return error(Code::kTimeout, "{} does not take what is sent to it", peer_);
    pollfd wait{fd(), POLLOUT, 0};
    // During a handshake the stream may wait for the peer's bytes instead.
    if (!authenticated() && !stream_->wants_write()) wait.events = POLLIN;
    ::poll(&wait, 1, deadline.left_ms());
  }
  return {};
}

Result<Frame> Channel::receive(Deadline deadline) {
  for (;;) {
    TUTTI_TRY(flush());
    std::optional<Frame> frame = TUTTI_TRY(next());
    if (frame) return std::move(*frame);
    if (deadline.passed()) return error(Code::kTimeout, "{} does not answer", peer_);
    pollfd waits[] = {{fd(), events(), 0}, {process_fd(), POLLIN, 0}};
    if (!authenticated() && !stream_->wants_write()) waits[0].events = POLLIN;
    ::poll(waits, std::size(waits), deadline.left_ms());
  }
}

}  // namespace tutti::bootstrap
