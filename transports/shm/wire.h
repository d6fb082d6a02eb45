// The messages of the shm transport, as pure functions over bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "transports/transport.h"

namespace tutti {

// Where a rank listens: the name of an abstract unix socket (without its leading zero byte).
inline constexpr size_t kMostShmNameBytes = 100;
Blob encode_shm_address(std::string_view name);
Result<std::string> parse_shm_address(std::span<const std::byte> bytes);

// What follows the handshake: each end's doorbell (as descriptors beside this message) and a pattern to pull.
inline constexpr size_t kShmPatternBytes = 64;
using ShmPattern = std::array<std::byte, kShmPatternBytes>;
inline constexpr size_t kShmEndBytes = 8 + kShmPatternBytes;
struct ShmEnd {
  uint64_t pattern_at = 0;   // address of `pattern` in the sender's private memory
  ShmPattern pattern{};
  friend bool operator==(const ShmEnd&, const ShmEnd&) = default;
};
std::array<std::byte, kShmEndBytes> encode(const ShmEnd& end);
Result<ShmEnd> parse_shm_end(std::span<const std::byte> bytes);

// What travels on the socket afterwards. A kShare carries the memory's descriptor beside it.
inline constexpr size_t kShmNoteBytes = 24;
struct ShmNote {
  enum class Kind : uint32_t { kMet = 1, kShare, kRelease, kLeave, kAbort };
  Kind kind = Kind::kMet;
  uint32_t id = 0;           // of the memory; of kMet: whether the sender could pull
  uint64_t size_bytes = 0;
  friend bool operator==(const ShmNote&, const ShmNote&) = default;
};
std::array<std::byte, kShmNoteBytes> encode(const ShmNote& note);
Result<ShmNote> parse_shm_note(std::span<const std::byte> bytes);

}  // namespace tutti
