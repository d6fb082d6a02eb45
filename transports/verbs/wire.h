// What two ends of a verbs link say to each other. Pure functions over bytes.
//
// On the connection by which they met, in messages of one size: who they are, and whether it works. On the queue pair,
// in order with the data: a head, then a line, then a small payload.
#pragma once

#include <array>
#include <span>
#include <string>
#include <variant>

#include "transports/transport.h"
#include "transports/verbs/path.h"
#include "transports/verbs/queue_pair.h"

namespace tutti {

inline constexpr size_t kSideMessageBytes = 1280;
inline constexpr size_t kMostLanes = 4;  // queue pairs of one link
using SideBytes = std::array<std::byte, kSideMessageBytes>;

// Where a range of memory is for the peer's device.
struct RemoteRange {
  uint64_t address = 0;
  uint32_t key = 0;
  friend bool operator==(const RemoteRange&, const RemoteRange&) = default;
};
// The same for a link: each of its lanes ends at a device that has a key of its own.
struct SharedRange {
  uint64_t address = 0;
  std::array<uint32_t, kMostLanes> keys{};
  friend bool operator==(const SharedRange&, const SharedRange&) = default;
};

// First, by both: the end of this queue pair.
struct SideHello {
  QueueAddress queue;
  PortAddress port;
  uint32_t receives = 0;   // that are posted and will be again
  RemoteRange probe;       // where the peer writes its pattern
  std::string name;        // "mlx5_0 port 1"
};
struct SideReady {};       // the sender's queue pair hears what comes
struct SideVerdict {       // whether the sender has seen data cross both ways
  bool proven = false;
  uint8_t ports = 1;       // that the sender can try
  uint8_t lanes = 1;       // that it wants
  std::string reason;      // why not
};
struct SideLost {          // the sender's end of a lane hears and says nothing any more
  uint8_t lane = 0;
  uint64_t received = 0;   // messages that have come over it
};
// The head of a message on the queue pair.
struct MessageHead {
  enum class Kind : uint16_t {
    kSignal = 1,  // a line, maybe a payload; both have a place in the receiver's memory
    kCredit,      // nothing but the head
    kProbe,       // the pattern is there
    kShare,       // the sender's memory `signal_memory`; the line says where it is
    kRelease,     // that memory may not be written any more
    kLost,        // what SideLost says: of lane `signal_memory`, over which `signal_offset` messages have come
  };
  Kind kind = Kind::kCredit;
  uint16_t payload_bytes = 0;    // in this message, behind the line
  uint32_t signal_memory = 0;
  uint64_t signal_offset = 0;
  uint32_t reposted = 0;         // receives of this lane that the sender has posted again, modulo 2^32
  uint32_t payload_memory = 0;
  uint64_t payload_offset = 0;
  uint64_t number = 0;           // from 1, over all lanes: messages take effect in this order; 0: as they come
};
static_assert(sizeof(MessageHead) == 40);  // travels as it is: ranks have one byte order
inline bool has_number(MessageHead::Kind kind) {
  using Kind = MessageHead::Kind;
  return kind == Kind::kSignal || kind == Kind::kShare || kind == Kind::kRelease;
}

// Beside the queue pairs once none is left: the message that one would have carried. So many bytes of payload follow
// it; head.payload_bytes is 0.
struct SideData {
  MessageHead head;
  Line line;
  uint64_t payload_bytes = 0;
};
using SideMessage = std::variant<SideHello, SideReady, SideVerdict, SideLost, SideData>;

SideBytes encode(const SideMessage& message);
Result<SideMessage> parse_side_message(std::span<const std::byte, kSideMessageBytes> bytes);

// The line of kShare.
inline Line encode(uint64_t size_bytes, const SharedRange& range) {
  return {{size_bytes, range.address, range.keys[0], range.keys[1], range.keys[2], range.keys[3]}};
}
inline SharedRange range_in(const Line& line) {
  SharedRange range{.address = line.words[1]};
  for (size_t lane = 0; lane < kMostLanes; ++lane) range.keys[lane] = static_cast<uint32_t>(line.words[2 + lane]);
  return range;
}

inline constexpr size_t kMessageBytes = 256;
inline constexpr size_t kEagerBytes = kMessageBytes - sizeof(MessageHead) - sizeof(Line);

}  // namespace tutti
