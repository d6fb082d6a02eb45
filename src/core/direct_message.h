// What the messages of a point-to-point stream say, and how it lies in their lines (executor/message.h).
#pragma once

#include <cstdint>

#include "base/types.h"
#include "core/point_to_point.h"

namespace tutti {

enum class PointToPoint::Kind : uint8_t {
  kEager,   // a message, with its data
  kOffer,   // a message; its data are with the sender, which names the offer by a number from 1 in chunk_bytes
  kClear,   // the receiver of an offer asks for the data, and says where it has them put if it can; with a size, for so
            // much of their end, to be pushed to the address in the payload's offset: it reads the rest meanwhile
  kData,    // the next piece of them; or that their end has been pushed, or with no size that it cannot be
  kTaken,   // the receiver of an offer has read the data, or what it did not ask for of them, and has them all
  kCredit,  // the receiver keeps so many bytes less of this sender
};

// Word 1 of a line, where messages of collectives have their call's signature.
struct PointToPoint::Header {
  Kind kind = Kind::kEager;
  Datatype datatype = TUTTI_INT8;  // of a message
  uint32_t value = 0;              // the tag of a message, else the number of the offer

  uint64_t word() const {
    return static_cast<uint64_t>(kind) | static_cast<uint64_t>(datatype) << 8 | static_cast<uint64_t>(value) << 32;
  }
  static Header of(uint64_t word) {
    return {.kind = static_cast<Kind>(word & 0xff),
            .datatype = static_cast<Datatype>(word >> 8 & 0xff),
            .value = static_cast<uint32_t>(word >> 32)};
  }
  friend bool operator==(const Header&, const Header&) = default;
};

// Of a message with its data.
inline PointToPoint::Header PointToPoint::eager_header(const CallArguments& arguments) {
  return {.kind = Kind::kEager, .datatype = arguments.datatype, .value = static_cast<uint32_t>(arguments.tag)};
}

// The payload of the stream's next message; null: it has none here.
inline const std::byte* PointToPoint::payload_of(const RecvStream& stream, const Message& message) {
  if (message.kind == MessageKind::kSlot) return stream.payload_in_slot(message);
  bool is_inline = message.kind == MessageKind::kInline;
  return is_inline ? reinterpret_cast<const std::byte*>(&stream.next_line().words[3]) : nullptr;
}

// How much a message of that kind can carry.
inline uint64_t PointToPoint::room_of(MessageKind kind) {
  return kind == MessageKind::kInline ? kInlineBytes
         : kind == MessageKind::kSlot ? StreamLayout::kDirect.slot_bytes
                                      : 0;
}

// So much a rank keeps of each sender, in messages that no receive has asked for.
inline constexpr uint64_t kMostKeptBytes = 1024 * 1024;
// From so much on that it keeps no more it tells the sender: half, which then never runs out for want of an answer.
inline constexpr uint64_t kTellFreedBytes = kMostKeptBytes / 2;
// Of it, a message takes its size and what it costs to remember it.
constexpr uint64_t credit_of(uint64_t size_bytes) { return size_bytes + 128; }

// So much of a message goes at once where the receiver's memory takes it: as much as keeps a fast port busy for long
// enough to prepare the next part, and no longer, since all else for the receiver waits behind it.
inline constexpr uint64_t kPlacedAtOnceBytes = 4 * 1024 * 1024;
// Of a socket's, which may be slow.
inline constexpr uint64_t kLandedAtOnceBytes = 1024 * 1024;

// Between two looks at everything else.
inline constexpr uint64_t kReadAtOnceBytes = 1024 * 1024;
// Of a sender who pushes: he may be in the receiver's memory for no longer than that takes.
inline constexpr uint64_t kPushedAtOnceBytes = 256 * 1024;
// What is pushed is a multiple of so much.
inline constexpr uint64_t kPageBytes = 4096;

}  // namespace tutti
