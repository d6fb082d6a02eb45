#include "transports/tcp/frame.h"

#include "transports/common/bytes.h"

namespace tutti {

FrameHeader encode(const Frame& frame) {
  FrameHeader bytes;
  FixedWriter writer(bytes);
  writer.put(static_cast<uint32_t>(frame.kind))
      .put(frame.memory)
      .put(frame.offset)
      .put(frame.size_bytes)
      .put(frame.signal_memory)
      .put(uint32_t{0})
      .put(frame.signal_offset);
  for (uint64_t word : frame.line.words) writer.put(word);
  return bytes;
}

Result<Frame> parse_frame(std::span<const std::byte, kFrameHeaderBytes> bytes) {
  FixedReader reader(bytes);
  uint32_t kind = reader.get<uint32_t>();
  if (kind < static_cast<uint32_t>(Frame::Kind::kPut) || kind > static_cast<uint32_t>(Frame::Kind::kLeave)) {
    return error(Code::kRemote, "the peer sent a frame of unknown kind {}", kind);
  }
  Frame frame;
  frame.kind = static_cast<Frame::Kind>(kind);
  frame.memory = reader.get<uint32_t>();
  frame.offset = reader.get<uint64_t>();
  frame.size_bytes = reader.get<uint64_t>();
  frame.signal_memory = reader.get<uint32_t>();
  if (reader.get<uint32_t>() != 0) return error(Code::kRemote, "the peer sent a frame with bits that must be zero");
  frame.signal_offset = reader.get<uint64_t>();
  for (uint64_t& word : frame.line.words) word = reader.get<uint64_t>();
  return frame;
}

}  // namespace tutti
