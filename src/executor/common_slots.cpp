#include "executor/common_slots.h"

#include <algorithm>

namespace tutti {

CommonSlots::CommonSlots(std::span<std::byte> arena, const StreamLayout& layout, int channel) : arena_(arena.data()) {
  SlotShape shape = layout.common_shape();
  if (shape.slots == 0) return;
  ring_ = {.first = arena.data() + layout.common_offset(channel),
           .stride = shape.stride(),
           .room_bytes = shape.room_bytes,
           .large_bytes = layout.large_bytes(channel, true),
           .count = static_cast<uint32_t>(layout.slots_in_use(channel, true))};
  readers_.resize(ring_.count);
  for (std::vector<Reader>& readers : readers_) readers.reserve(static_cast<size_t>(layout.nranks));
}

const Peer* CommonSlots::awaited() const {
  for (const Reader& reader : readers_[ring_.latest()]) {
    if (!reader.stream->is_released(reader.number)) return &reader.stream->peer();
  }
  return nullptr;
}

bool CommonSlots::all_went_to(const SendStream& stream, size_t count) const {
  return std::all_of(readers_.begin(), readers_.end(), [&](const std::vector<Reader>& readers) {
    auto is_it = [&](const Reader& reader) { return reader.stream == &stream; };
    return readers.size() == count && std::any_of(readers.begin(), readers.end(), is_it);
  });
}

void CommonSlots::take(uint64_t size_bytes) {
  stores_.count(size_bytes);
  taken_ = ring_.index(size_bytes);
  readers_[taken_].clear();
  ring_.advance(size_bytes);
}

}  // namespace tutti
