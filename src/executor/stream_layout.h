// Where streams lie in a rank's arena: the memory that it shares with its peers. The same on all ranks. Pages that no
// message touches are never backed by memory.
#pragma once

#include <cstdint>

#include "transports/transport.h"

namespace tutti {

// A receiver tells of so many released slots at once, where nobody waits for them.
constexpr int told_at_once(int slots) { return (slots + 1) / 2; }
// So many slots of a stream are certain to be free when the receiver has released all messages, told of or not.
constexpr int certain_slots(int slots) { return slots - told_at_once(slots) + 1; }

struct StreamLayout {
  int nranks = 1;
  int channels = 1;
  int slots = 4;
  uint64_t slot_bytes = 256 * 1024;  // a multiple of 64

  // Slots start on different cache sets, so that small messages in a row do not evict each other.
  uint64_t slot_stride() const { return slot_bytes + 3 * sizeof(Line); }
  uint64_t stream_index(int peer, int channel) const { return static_cast<uint64_t>(peer) * channels + channel; }
  uint64_t streams() const { return static_cast<uint64_t>(nranks) * channels; }
  uint64_t lines_per_stream() const { return static_cast<uint64_t>(slots) + 1; }

  // The line of messages from `peer`.
  uint64_t line_offset(int peer, int channel, int slot) const {
    return (stream_index(peer, channel) * lines_per_stream() + slot) * sizeof(Line);
  }
  // Where `peer` counts the messages of ours that it has released.
  uint64_t freed_offset(int peer, int channel) const { return line_offset(peer, channel, slots); }
  uint64_t payload_offset(int peer, int channel, int slot) const {
    return streams() * lines_per_stream() * sizeof(Line) + (stream_index(peer, channel) * slots + slot) * slot_stride();
  }
  uint64_t arena_bytes() const { return payload_offset(nranks, 0, 0); }
};

}  // namespace tutti
