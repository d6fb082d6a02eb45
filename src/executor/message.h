// How a message of a stream looks in its 64-byte line (transports/transport.h): word 0 is the message's number from 1,
// word 1 the signature of the call it belongs to, word 2 kind and size. The rest is a small payload, or where the
// payload lies and where this rank's output lies. So every message carries the call's header, and a receiver that
// reads a line knows all of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include "plan/payload_sizes.h"
#include "transports/transport.h"

namespace tutti {

enum class MessageKind : uint8_t {
  kSignal,     // no payload
  kInline,     // in this line
  kSlot,       // in the slot whose turn it is
  kReference,  // in shared memory of the sender, until the message is released
  kPull,       // in private memory of the sender, until the message is released
  kShort,      // in the place beside this line
  kCommon,     // in a slot of the sender's own arena, which others read too, until all have released it
  kDirect,     // already in the receiver's output
};

// Whether a message of this kind takes a slot of its stream; what is pulled may have to be stored somewhere.
constexpr bool takes_slot(MessageKind kind) { return kind == MessageKind::kSlot || kind == MessageKind::kPull; }

// Whether the payload lies in the receiver's arena, outside the line.
constexpr bool lies_in_arena(MessageKind kind) { return kind == MessageKind::kSlot || kind == MessageKind::kShort; }

// A place in memory that its owner has shared; memory id 0 is none.
struct Window {
  uint32_t memory_id = 0;
  uint64_t offset = 0;
  explicit operator bool() const { return memory_id != 0; }
};

struct Message {
  MessageKind kind = MessageKind::kSignal;
  uint64_t size_bytes = 0;
  Window payload;           // kReference; of kSlot only the offset within the slot, of kCommon within the arena
  uint64_t address = 0;     // kPull
  // kPull, kReference: all that follows of the payload's chunk lies behind it, and is there already. No other message
  // of the chunk comes after such a reference.
  bool with_rest = false;
  Window output;            // the sender's output of this call; none with kInline,
  bool by_chunk = false;    // results go there by chunk (PlanShape::by_chunk)
  uint64_t chunk_bytes = 0; // of the chunk on this channel, with counts of all of it; none with kInline
};

// Word 2, in which kinds have six bits.
inline constexpr uint64_t kByChunkBit = 1 << 6, kWithRestBit = 1 << 7;
constexpr uint64_t kind_and_size(MessageKind kind, uint64_t size_bytes) {
  return static_cast<uint64_t>(kind) | size_bytes << 8;
}

static_assert(3 * sizeof(uint64_t) + kInlineBytes == sizeof(Line));

inline Line encode(const Message& message, uint64_t number, uint64_t signature, const void* inline_payload) {
  Line line;
  line.words[0] = number;
  line.words[1] = signature;
  line.words[2] = kind_and_size(message.kind, message.size_bytes) | (message.by_chunk ? kByChunkBit : 0) |
                  (message.with_rest ? kWithRestBit : 0);
  if (message.kind == MessageKind::kInline) {
    std::memcpy(&line.words[3], inline_payload, message.size_bytes);
    return line;
  }
  line.words[3] = message.payload.memory_id | static_cast<uint64_t>(message.output.memory_id) << 32;
  line.words[4] = message.kind == MessageKind::kPull ? message.address : message.payload.offset;
  line.words[5] = message.output.offset;
  line.words[6] = message.chunk_bytes;
  return line;
}

// The message's payload lies so far behind the start of its slot.
inline void set_offset_in_slot(Line& line, uint64_t offset) { line.words[4] = offset; }

inline MessageKind kind_of(const Line& line) { return static_cast<MessageKind>(line.words[2] & (kByChunkBit - 1)); }

inline bool has_rest(const Line& line) { return (line.words[2] & kWithRestBit) != 0; }

inline Message decode(const Line& line) {
  Message message;
  message.kind = kind_of(line);
  message.size_bytes = line.words[2] >> 8;
  message.with_rest = has_rest(line);
  message.by_chunk = (line.words[2] & kByChunkBit) != 0;
  if (message.kind == MessageKind::kInline) return message;
  message.payload = {static_cast<uint32_t>(line.words[3]), line.words[4]};
  message.address = line.words[4];
  message.output = {static_cast<uint32_t>(line.words[3] >> 32), line.words[5]};
  message.chunk_bytes = line.words[6];
  return message;
}

inline uint64_t load_counter(const Line& line) {
  return std::atomic_ref<uint64_t>(const_cast<uint64_t&>(line.words[0])).load(std::memory_order_acquire);
}

}  // namespace tutti
