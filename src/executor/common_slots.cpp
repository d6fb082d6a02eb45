#include "executor/common_slots.h"

#include <algorithm>

namespace tutti {

CommonSlots::CommonSlots(std::span<std::byte> arena, const StreamLayout& layout, int channel) : arena_(arena.data()) {
  SlotShape shape = layout.common_shape();
  if (shape.slots == 0) return;
  auto count = static_cast<uint32_t>(layout.slots_in_use(channel, true));
  ring_ = {arena.data() + layout.common_offset(channel), shape, count, layout.large_bytes(channel, true)};
  readers_.resize(ring_.count);
  for (std::vector<Reader>& readers : readers_) readers.reserve(static_cast<size_t>(layout.nranks));
}

const Peer* CommonSlots::awaited(uint64_t size_bytes) const {
  for (const Reader& reader : readers_[ring_.index(size_bytes)]) {
    if (!reader.stream->is_released(reader.number)) return &reader.stream->peer();
  }
  return nullptr;
}

bool CommonSlots::all_went_to(const SendStream& stream, size_t count, uint64_t size_bytes) const {
  auto is_it = [&](const Reader& reader) { return reader.stream == &stream; };
  uint32_t slots = ring_.is_by_turns(size_bytes) ? 2 : ring_.count;
  for (uint32_t i = 1; i <= slots; ++i) {
    const std::vector<Reader>& readers = readers_[(ring_.next + ring_.count - i) % ring_.count];
    if (readers.size() != count || std::none_of(readers.begin(), readers.end(), is_it)) return false;
  }
  return true;
}

void CommonSlots::take(uint64_t size_bytes) {
  stores_.count(size_bytes);
  taken_ = ring_.index(size_bytes);
  readers_[taken_].clear();
  ring_.advance(size_bytes);
}

}  // namespace tutti
