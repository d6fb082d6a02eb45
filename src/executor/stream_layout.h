// Where streams lie in a rank's arena: the memory that it shares with its peers. The same on all ranks. Pages that no
// message touches are never backed by memory.
#pragma once

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdint>

#include "transports/transport.h"

namespace tutti {

// A receiver tells of so many released slots at once, where nobody waits for them.
constexpr int told_at_once(int slots) { return (slots + 1) / 2; }
// So many slots of a stream are certain to be free when the receiver has released all messages, told of or not.
constexpr int certain_slots(int slots) { return slots - told_at_once(slots) + 1; }

// One stream's ring of slots, and of lines, of which there are more: a message without a payload of its own takes no
// slot, and the more lines there are, the more rarely its receiver has to tell that it is released. Telling is a system
// call where the sender has not mapped the slots, so a short payload goes to a place beside its line there instead.
struct SlotShape {
  int slots = 4;
  uint64_t slot_bytes = 256 * 1024;  // the most that a message has; a multiple of 64
  uint64_t room_bytes = slot_bytes;  // for messages that do not always lie at the start (SlotRing::offset())
  uint64_t short_bytes = 0;          // the most that has such a place; a multiple of 64

  // Slots start on different cache sets, so that small messages in a row do not evict each other.
  uint64_t stride() const { return room_bytes + 3 * sizeof(Line); }
  uint64_t short_stride() const { return short_bytes == 0 ? 0 : short_bytes + sizeof(Line); }
  uint64_t bytes() const { return static_cast<uint64_t>(slots) * stride(); }
  // A power of two, so that the line of a message takes no division.
  uint32_t message_lines() const { return std::bit_ceil(static_cast<uint32_t>(std::max(64, slots))); }
  // With the two where the peer counts what it has released.
  uint64_t lines() const { return uint64_t{message_lines()} + 2; }
};

inline constexpr int kNoWish = -1;  // calls whose receivers have none (StreamLayout::kWishes)

// How ranks that have mapped each other's slots use those of collectives, so that what goes through them stays in the
// caches.
struct MappedSlots {
  int most = INT_MAX;                 // so many are in use
  uint64_t large_bytes = UINT64_MAX;  // for payloads of more than that two
};

// From each peer one stream for every channel of collectives, and one of messages that are sent to this rank alone.
struct StreamLayout {
  int nranks = 1;
  int channels = 1;
  int slots = 4;
  uint64_t slot_bytes = 256 * 1024;
  MappedSlots mapped_slots;  // alike within a host

  // Point-to-point messages are many and small; of large ones over a network, all slots together are what may be on the
  // way. In memory that the sender has mapped, fewer of them stay in the caches; those of a single peer are to exceed
  // the second-level one, which far cores need (Spread).
  static constexpr SlotShape kDirect{.slots = 48, .slot_bytes = 64 * 1024};
  static constexpr uint64_t kShortBytes = 2048;
  // Of a channel's slots for all peers together, where these are not larger anyhow.
  static constexpr uint64_t kRoomOfAllPeers = 2 << 20;
  // Kinds of calls of which a receiver tells each of its senders whether it wishes to pull.
  static constexpr int kWishes = 128;
  static constexpr int kWishesOfLine = 64;
  int mapped_direct_slots() const { return nranks == 2 ? 32 : 16; }
  int slots_in_use(int channel, bool mapped) const {
    if (!mapped) return shape(channel).slots;
    if (channel == direct_channel()) return mapped_direct_slots();
    return std::min(mapped_slots.most, slots);
  }
  // Payloads of more than that go through two of them, where there are more (SlotRing).
  uint64_t large_bytes(int channel, bool mapped) const {
    bool has_more = mapped && channel != direct_channel() && slots_in_use(channel, mapped) > 2;
    return has_more ? mapped_slots.large_bytes : UINT64_MAX;
  }
  int direct_channel() const { return channels; }
  int streams_per_peer() const { return channels + 1; }
  SlotShape shape(int channel) const {
    return channel < channels ? SlotShape{slots, slot_bytes, room_bytes(), kShortBytes} : kDirect;
  }

  // A line of messages from `peer`.
  uint64_t line_offset(int peer, int channel, int line) const {
    uint64_t before = channel * shape(0).lines();
    return (peer * lines_per_peer() + before + line) * sizeof(Line);
  }
  // Where `peer` counts the messages of ours that it has released,
  uint64_t freed_offset(int peer, int channel) const {
    return line_offset(peer, channel, shape(channel).message_lines());
  }
  // and the chunks of our callers' memory that some of them have lent it (Message::with_rest).
  uint64_t chunks_back_offset(int peer, int channel) const { return freed_offset(peer, channel) + sizeof(Line); }
  // Where `peer` says what it wishes to pull (Peer::wish()), of which such a line has kWishesOfLine.
  uint64_t wishes_offset(int peer, int wish) const {
    return ((peer + 1) * lines_per_peer() - kWishLines + wish / kWishesOfLine) * sizeof(Line);
  }
  uint64_t payload_offset(int peer, int channel, int slot) const {
    uint64_t before = channel * shape(0).bytes();
    return nranks * lines_per_peer() * sizeof(Line) + peer * payload_per_peer() + before +
           slot * shape(channel).stride();
  }
  // The place beside a line of a collective's channel. All of them lie behind all slots.
  uint64_t short_offset(int peer, int channel, uint64_t line) const {
    uint64_t lines = static_cast<uint64_t>(peer * channels + channel) * shape(0).message_lines();
    return payload_offset(nranks, 0, 0) + (lines + line) * shape(0).short_stride();
  }
  // Slots from which all peers that have mapped this arena read the same value (CommonSlots), behind all else. Two
  // ranks have none.
  SlotShape common_shape() const {
    return {.slots = nranks > 2 ? slots : 0, .slot_bytes = slot_bytes, .room_bytes = room_bytes()};
  }
  uint64_t common_offset(int channel) const { return short_offset(nranks, 0, 0) + channel * common_shape().bytes(); }
  uint64_t arena_bytes() const { return common_offset(channels); }

 private:
  static constexpr int kWishLines = kWishes / kWishesOfLine;

  // So that a channel's slots for all peers together are twice as large as many second-level caches. More would be
  // pinned where links go over devices.
  uint64_t room_bytes() const {
    uint64_t wanted = kRoomOfAllPeers / static_cast<uint64_t>(slots) / std::max<uint64_t>(1, nranks - 1);
    return std::max(slot_bytes, wanted / sizeof(Line) * sizeof(Line));
  }
  uint64_t lines_per_peer() const { return channels * shape(0).lines() + kDirect.lines() + kWishLines; }
  uint64_t payload_per_peer() const { return channels * shape(0).bytes() + kDirect.bytes(); }
};

}  // namespace tutti
