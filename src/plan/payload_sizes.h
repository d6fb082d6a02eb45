// From which sizes on payloads between ranks of a host take other ways, as executor and planner know them.
#pragma once

#include <cstdint>

namespace tutti {

// Of a message, in its own cache line; more lies beside it.
inline constexpr uint64_t kInlineBytes = 40;

// Where the kernel lets a receiver read its sender's private memory, collectives of so many bytes and more, and
// messages that fit into no slot, find out whether that is quicker than slots are; less is not worth a look at
// the clock. A pull takes a microsecond or so, whatever its size, and is of so much at least.
inline constexpr uint64_t kLeastTried = 64 * 1024;
inline constexpr uint64_t kLeastPulled = 32 * 1024;

// What several others get lies in one slot for all of them from so many bytes on.
inline constexpr uint64_t kLeastCommonBytes = 256;

}  // namespace tutti
