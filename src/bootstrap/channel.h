// Messages over a Stream: a type and at most `max_payload` bytes each. The peer's announced sizes are checked before
// anything is allocated for them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/deadline.h"
#include "bootstrap/stream.h"

namespace tutti::bootstrap {

struct Frame {
  uint32_t type = 0;
  Bytes payload;
};

// On the wire: payload size u32, type u32, payload.
class FrameParser {
 public:
  explicit FrameParser(size_t max_payload) : max_payload_(max_payload) {}
  void set_max_payload(size_t max_payload) { max_payload_ = max_payload; }
  void add(ByteView bytes);
  // The next whole frame; nullopt when it is not complete yet. Error: a frame larger than allowed.
  Result<std::optional<Frame>> next();
  bool empty() const { return used_ == buffer_.size(); }

 private:
  Bytes buffer_;
  size_t used_ = 0;
  size_t max_payload_;
};

// Not thread-safe. After an error or closed() nothing more comes.
class Channel {
 public:
  // `peer` names the other end in errors ("rank 3", "10.0.0.2:4711").
  Channel(std::unique_ptr<Stream> stream, std::string peer, size_t max_payload)
      : stream_(std::move(stream)), peer_(std::move(peer)), parser_(max_payload) {}

  // Appends a message to what is to be sent; flush() sends.
  void queue(uint32_t type, ByteView payload);
  // Sends what the socket takes now; true when everything is out. Does not block.
  Result<bool> flush();
  // Reads what is there; nullopt: no whole message yet. Does not block. Error: the peer closed, or broke the rules.
  Result<std::optional<Frame>> next();

  // The same, waiting at most until `deadline` (kTimeout).
  Status flush(Deadline deadline);
  Result<Frame> receive(Deadline deadline);

  void watch_process() { stream_->watch_process(); }
  // What to wait for with poll(2); process_fd() may be -1.
  int fd() const { return stream_->fd(); }
  int process_fd() const { return stream_->process_fd(); }
  short events() const;
  size_t unsent() const { return out_.size() - sent_; }
  bool authenticated() const { return stream_->authenticated(); }
  bool closed() const { return closed_; }

  void close_writing() { stream_->close_writing(); }
  void set_max_payload(size_t max_payload) { parser_.set_max_payload(max_payload); }
  void set_peer(std::string peer) { peer_ = std::move(peer); }
  const std::string& peer() const { return peer_; }

 private:
  std::unique_ptr<Stream> stream_;
  std::string peer_;
  FrameParser parser_;
  Bytes out_;
  size_t sent_ = 0;
  bool closed_ = false;
};

}  // namespace tutti::bootstrap
