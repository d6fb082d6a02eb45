#include "transports/tcp/frame_reader.h"

#include <algorithm>
#include <cstring>

#include "transports/common/mapped.h"

namespace tutti {

std::span<iovec> FrameReader::space() {
  if (in_payload()) {  // then the buffer is empty
    space_ = {iovec{payload_to_, payload_left_}, iovec{buffer_.get(), kReadAheadBytes}};
    return std::span(space_).first(in_large_payload() ? 1 : 2);
  }
  std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);  // less than a header
  end_ -= begin_;
  begin_ = 0;
  // Large payloads come in a row, mostly: what of the next one is read with its header must be copied.
  space_[0] = {buffer_.get() + end_, (after_large_ ? kReadAheadBytes : kBufferBytes) - end_};
  return std::span(space_).first(1);
}

Status FrameReader::filled(size_t size_bytes) {
  after_large_ = in_large_payload();
  if (in_payload()) {
    size_t placed = std::min<uint64_t>(size_bytes, payload_left_);
    payload_to_ += placed;
    payload_left_ -= placed;
    begin_ = 0;
    end_ = size_bytes - placed;
    if (in_payload()) return {};
    finish();
  } else {
    end_ += size_bytes;
  }
  while (end_ - begin_ >= kFrameHeaderBytes) {
    auto header = std::span<const std::byte, kFrameHeaderBytes>(buffer_.get() + begin_, kFrameHeaderBytes);
    Frame frame = TUTTI_TRY(parse_frame(header));
    begin_ += kFrameHeaderBytes;
    TUTTI_TRY(begin(frame));
    take_payload_from_buffer();
    if (in_payload()) return {};
  }
  return {};
}

Status FrameReader::begin(const Frame& frame) {
  if (frame.kind != Frame::Kind::kPut) {
    ++applied_;
    return sink_.control(frame);
  }
  std::byte* line = sink_.writable(frame.signal_memory, frame.signal_offset, sizeof(Line));
  if (line == nullptr || reinterpret_cast<uintptr_t>(line) % alignof(Line) != 0) {
    return error(Code::kRemote, "the peer sent a signal to memory {} offset {}, where it may not write",
                 frame.signal_memory, frame.signal_offset);
  }
  payload_to_ = nullptr;
  if (frame.size_bytes > 0) {
    payload_to_ = sink_.writable(frame.memory, frame.offset, frame.size_bytes);
    if (payload_to_ == nullptr) {
      return error(Code::kRemote, "the peer sent {} bytes to memory {} offset {}, where it may not write",
                   frame.size_bytes, frame.memory, frame.offset);
    }
    payload_to_ = sink_.place_of(frame, payload_to_, line);
  }
  frame_ = frame;
  payload_left_ = frame.size_bytes;
  if (payload_left_ == 0) finish();
  return {};
}

void FrameReader::take_payload_from_buffer() {
  if (!in_payload()) return;
  size_t size = std::min<uint64_t>(payload_left_, end_ - begin_);
  std::memcpy(payload_to_, buffer_.get() + begin_, size);
  begin_ += size;
  payload_to_ += size;
  payload_left_ -= size;
  if (!in_payload()) finish();
}

void FrameReader::finish() {
  // Asked for again: the memory may have been released while the payload was under way.
  if (std::byte* line = sink_.writable(frame_.signal_memory, frame_.signal_offset, sizeof(Line))) {
    store_line(line, frame_.line);
  }
  ++applied_;
}

}  // namespace tutti
