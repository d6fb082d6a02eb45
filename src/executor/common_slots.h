// CommonSlots: one channel's slots in this rank's own arena, for values that several peers get who have mapped it: each
// is stored once, and all of them read it there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/peer.h"
#include "executor/stream_layout.h"

namespace tutti {

class CommonSlots {
 public:
  // `arena` is this rank's, and outlives them, as do the streams that add_reader() gets as long as they are used.
  CommonSlots(std::span<std::byte> arena, const StreamLayout& layout, int channel);

  bool empty() const { return ring_.count == 0; }
  // A peer that has not released what lies where the next value goes, which is of that size; null: nobody has to, until
  // that is taken.
  const Peer* awaited(uint64_t size_bytes) const;
  // Where that is.
  std::byte* next(uint64_t size_bytes, const Spread& spread) const {
    return ring_.slot(size_bytes) + ring_.offset(size_bytes, spread);
  }
  // Whether the values of all slots that come before that one's turn have gone to `count` streams, and this one among
  // them: then it is the same to wait for a slot as for those streams' own. Who waits otherwise may do so for a peer
  // that waits for him.
  bool all_went_to(const SendStream& stream, size_t count, uint64_t size_bytes) const;
  // Stores the value there, when it is not stored by whatever computes it.
  void fill(PayloadOrigin origin, std::byte* slot, const std::byte* from, uint64_t size_bytes, const Spread& spread,
            float memory_ns_per_byte) {
    stores_.store(origin, slot, from, size_bytes, ring_.places(size_bytes, spread), memory_ns_per_byte);
  }
  // Whether it is to be.
  bool is_filled_apart(PayloadOrigin origin, uint64_t size_bytes) const {
    return stores_.are_apart(origin, size_bytes);
  }
  // The value of that size lies where next() said, until all its readers have released it.
  void take(uint64_t size_bytes);
  // The last message of this stream refers to the value taken last.
  void add_reader(const SendStream& to) { readers_[taken_].push_back({&to, to.sent()}); }
  // As messages say it: behind the start of the arena.
  uint64_t offset_of(const std::byte* value) const { return static_cast<uint64_t>(value - arena_); }

 private:
  struct Reader {
    const SendStream* stream = nullptr;
    uint64_t number = 0;
  };

  const std::byte* const arena_;
  SlotRing ring_;
  std::vector<std::vector<Reader>> readers_;  // by slot
  uint32_t taken_ = 0;                        // the slot taken last
  SlotStores stores_;
};

}  // namespace tutti
