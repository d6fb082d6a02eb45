// Turns the byte stream of a peer into memory writes and lines. It has no socket: the owner asks where the next bytes
// go, puts them there, and says how many came. Large payloads so go straight into place; headers and what is small go
// through a buffer, many at a time.
#pragma once

#include <sys/uio.h>

#include <array>
#include <memory>
#include <span>

#include "base/status.h"
#include "transports/tcp/frame.h"

namespace tutti {

// What the peer may do here.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Where size_bytes at `offset` of exported memory `id` are; nullptr if the peer may not write there.
  virtual std::byte* writable(uint32_t id, uint64_t offset, uint64_t size_bytes) = 0;
  // Where the payload of the frame goes, which is put there and whose signal goes to `line`; asked for once for each,
  // when it begins to come.
  virtual std::byte* place_of(const Frame& /*frame*/, std::byte* there, const std::byte* /*line*/) { return there; }
  // Any frame that is not a put.
  virtual Status control(const Frame& frame) = 0;
};

class FrameReader {
 public:
  explicit FrameReader(FrameSink& sink) : sink_(sink), buffer_(std::make_unique<std::byte[]>(kBufferBytes)) {}

  // Where the next bytes of the stream go, in this order. Never empty. Valid until filled().
  std::span<iovec> space();
  // The first `size_bytes` of space() have come: applies every frame that is complete. An error ends the stream.
  Status filled(size_t size_bytes);
  // Whether a payload is on its way into those bytes of memory `memory`, by its id. Several may be one memory.
  bool is_writing(uint32_t memory, uint64_t offset, uint64_t size_bytes) const {
    return in_payload() && frame_.memory == memory && frame_.offset >= offset && frame_.offset - offset < size_bytes;
  }
  // Whether one is on its way to those bytes, wherever it was put.
  bool is_writing_to(std::span<const std::byte> place) const {
    return in_payload() && payload_to_ >= place.data() && payload_to_ < place.data() + place.size();
  }
  // Whether a large payload is coming. No byte behind it is read with it: its receiver may say then where the next one
  // goes.
  bool in_large_payload() const { return in_payload() && frame_.size_bytes >= kLargeBytes; }
  // Frames applied so far.
  uint64_t applied() const { return applied_; }

 private:
  static constexpr size_t kBufferBytes = 16 * 1024;
  static constexpr size_t kReadAheadBytes = 4 * 1024;  // beyond a payload: what is read ahead must be copied
  static constexpr uint64_t kLargeBytes = 64 * 1024;

  bool in_payload() const { return payload_left_ > 0; }
  Status begin(const Frame& frame);
  void finish();
  void take_payload_from_buffer();

  FrameSink& sink_;
  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0;                 // buffer_[begin_, end_) has come and is not used yet
  size_t end_ = 0;
  std::array<iovec, 2> space_{};
  Frame frame_;                      // the put whose payload is coming
  std::byte* payload_to_ = nullptr;
  uint64_t payload_left_ = 0;
  bool after_large_ = false;         // what came last was a part of a large payload
  uint64_t applied_ = 0;
};

}  // namespace tutti
