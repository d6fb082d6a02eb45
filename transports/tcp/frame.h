// What travels on a TCP link: frames, each a fixed-size header and, for a put, its payload. Pure functions over bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "transports/transport.h"

namespace tutti {

inline constexpr size_t kFrameHeaderBytes = 40 + sizeof(Line);
using FrameHeader = std::array<std::byte, kFrameHeaderBytes>;

struct Frame {
  enum class Kind : uint32_t {
    kPut = 1,    // size_bytes of payload for the memory, then `line` for the signal; a bare signal has no payload
    kShare,      // the sender's memory `memory` has size_bytes
    kRelease,    // and is gone
    kLeave,      // the sender closes its end
  };
  Kind kind = Kind::kPut;
  uint32_t memory = 0;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  uint32_t signal_memory = 0;
  uint64_t signal_offset = 0;
  Line line;
};

FrameHeader encode(const Frame& frame);
Result<Frame> parse_frame(std::span<const std::byte, kFrameHeaderBytes> bytes);

}  // namespace tutti
