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

inline constexpr size_t kSideMessageBytes = 512;
inline constexpr size_t kMostGids = 16;
using SideBytes = std::array<std::byte, kSideMessageBytes>;

// Where a range of memory is for the peer's device.
struct RemoteRange {
  uint64_t address = 0;
  uint32_t key = 0;
  friend bool operator==(const RemoteRange&, const RemoteRange&) = default;
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
  uint8_t ports = 1;       // that the sender can try, if not
  std::string reason;      // why not
};
using SideMessage = std::variant<SideHello, SideReady, SideVerdict>;

SideBytes encode(const SideMessage& message);
Result<SideMessage> parse_side_message(std::span<const std::byte, kSideMessageBytes> bytes);

// The head of a message on the queue pair.
struct MessageHead {
  enum class Kind : uint32_t {
    kSignal = 1,  // a line, maybe a payload; both have a place in the receiver's memory
    kCredit,      // nothing but the head
    kProbe,       // the pattern is there
    kShare,       // the sender's memory `signal_memory`; the line says where it is
    kRelease,     // that memory may not be written any more
  };
  Kind kind = Kind::kCredit;
  uint32_t signal_memory = 0;
  uint64_t signal_offset = 0;
  uint64_t reposted = 0;         // receives that the sender has posted again, since the beginning
  uint32_t payload_memory = 0;
  uint32_t payload_bytes = 0;    // in this message, behind the line
  uint64_t payload_offset = 0;
};
static_assert(sizeof(MessageHead) == 40);  // travels as it is: ranks have one byte order

// The line of kShare.
inline Line encode(uint64_t size_bytes, const RemoteRange& range) { return {{size_bytes, range.address, range.key}}; }

inline constexpr size_t kMessageBytes = 256;
inline constexpr size_t kEagerBytes = kMessageBytes - sizeof(MessageHead) - sizeof(Line);

}  // namespace tutti
