// Where in their slots senders put payloads (executor/peer.h).
#include <catch2/catch.hpp>

#include <set>

#include "executor/peer.h"

using namespace tutti;

namespace {

constexpr uint64_t kRoom = 512 << 10, kLeast = 16 << 10;

SlotRing ring_of(uint32_t count) { return {nullptr, {.room_bytes = kRoom}, count, UINT64_MAX}; }

// Where a message of that size begins in the ring, and the next one's turn.
uint64_t next_place(SlotRing& ring, uint64_t size_bytes, const Spread& spread) {
  uint64_t offset = ring.offset(size_bytes, spread);
  CHECK(offset + size_bytes <= ring.room_bytes);
  CHECK(offset % sizeof(Line) == 0);
  uint64_t place = ring.next * ring.stride + offset;
  ring.advance(size_bytes);
  return place;
}

}  // namespace

TEST_CASE("payloads go through as much of the slots as is wanted before they come back to a place") {
  const uint32_t count = GENERATE(1, 2, 3, 4, 32);
  const uint64_t size = GENERATE(uint64_t{16} << 10, (uint64_t{16} << 10) + 4, 40'000, uint64_t{64} << 10);
  const uint64_t wanted = GENERATE(uint64_t{1} << 20, uint64_t{2} << 20);
  INFO(count << " slots, " << size << " bytes, spread over " << wanted);
  SlotRing ring = ring_of(count);
  const uint64_t room = std::min(wanted, count * kRoom);
  // Places of a slot are whole, and what is left of it at the end is lost.
  const uint64_t least = room / (size + 63) / 2;
  std::set<uint64_t> seen;
  uint64_t first = next_place(ring, size, {.least_bytes = kLeast, .bytes = wanted});
  seen.insert(first);
  for (uint64_t place; (place = next_place(ring, size, {.least_bytes = kLeast, .bytes = wanted})) != first;) {
    CHECK(seen.insert(place).second);
    REQUIRE(seen.size() < 10'000);
  }
  CHECK(seen.size() == ring.places(size, {.least_bytes = kLeast, .bytes = wanted}));
  CHECK(seen.size() >= std::max<uint64_t>(count, least));
  CHECK(seen.size() * size <= std::max(room, count * size));
}

TEST_CASE("small payloads, and such as have no room for two places, lie at the start of their slots") {
  const Spread spread{.least_bytes = kLeast, .bytes = 2 << 20};
  for (uint64_t size : {uint64_t{1}, uint64_t{4096}, uint64_t{16383}, (kRoom / 2) + 1, kRoom}) {
    SlotRing ring = ring_of(4);
    for (int i = 0; i < 100; ++i) CHECK(next_place(ring, size, spread) == i % 4 * ring.stride);
  }
  SlotRing ring = ring_of(4);
  for (int i = 0; i < 100; ++i) CHECK(next_place(ring, 65536, Spread()) == i % 4 * ring.stride);
}

TEST_CASE("calls whose own buffers take lines out of the caches go through a quarter of the places") {
  const Spread spread{.least_bytes = kLeast, .bytes = 2 << 20, .own_bytes = 1 << 20};
  auto places = [&](uint64_t call_bytes, bool reduces = false, bool streams = false) {
    SlotRing ring = ring_of(4);
    std::set<uint64_t> seen;
    for (int i = 0; i < 200; ++i) seen.insert(next_place(ring, kLeast, spread.of_call(call_bytes, reduces, streams)));
    return seen.size() * kLeast;
  };
  CHECK(places((1 << 20) - 4) == 2 << 20);
  CHECK(places(1 << 20) == 512 << 10);
  CHECK(places(64 << 20) == 512 << 10);
  // Of results that are stored past the caches nothing takes lines out of them but what a reduction reads.
  CHECK(places(64 << 20, false, true) == 2 << 20);
  CHECK(places(64 << 20, true, true) == 512 << 10);
}

TEST_CASE("places stay inside their slots when messages of all sizes take turns") {
  SlotRing ring = ring_of(4);
  uint64_t size = 1;
  for (int i = 0; i < 100'000; ++i) {
    next_place(ring, size, {.least_bytes = 64, .bytes = 4 << 20});
    size = (size * 7919 + 13) % kRoom + 1;
  }
}

TEST_CASE("the slots of a rank's peers have room for twice a second-level cache, or for what their messages need") {
  constexpr uint64_t kSlot = 256 << 10;
  auto room_of = [](int nranks, int slots, uint64_t slot_bytes) {
    StreamLayout layout{.nranks = nranks, .channels = 2, .slots = slots, .slot_bytes = slot_bytes};
    SlotShape shape = layout.shape(0);
    CHECK(shape.slot_bytes == slot_bytes);
    // Neither a channel nor a peer reaches into what follows.
    CHECK(layout.payload_offset(0, 1, 0) - layout.payload_offset(0, 0, 0) == shape.bytes());
    for (int peer = 0; peer < nranks; ++peer) {
      constexpr int kLast = StreamLayout::kWishes - 1;
      const uint64_t first_wishes = layout.wishes_offset(peer, 0);
      const uint64_t behind_wishes = layout.wishes_offset(peer, kLast) + sizeof(Line);
      CHECK(first_wishes == layout.chunks_back_offset(peer, layout.direct_channel()) + sizeof(Line));
      CHECK(behind_wishes - first_wishes == (kLast / StreamLayout::kWishesOfLine + 1) * sizeof(Line));
      CHECK(behind_wishes == (peer + 1 < nranks ? layout.line_offset(peer + 1, 0, 0) : layout.payload_offset(0, 0, 0)));
    }
    const uint64_t behind_slots = layout.payload_offset(nranks, 0, 0);
    CHECK(behind_slots - layout.payload_offset(nranks - 1, 2, 0) == StreamLayout::kDirect.bytes());
    CHECK(layout.short_offset(0, 0, 0) == behind_slots);
    CHECK(layout.short_offset(0, 1, 0) == layout.short_offset(0, 0, shape.message_lines()));
    CHECK(layout.common_offset(0) == layout.short_offset(nranks - 1, 1, shape.message_lines()));
    CHECK(layout.common_offset(1) - layout.common_offset(0) == layout.common_shape().bytes());
    CHECK(layout.arena_bytes() == layout.common_offset(layout.channels));
    return shape.room_bytes;
  };
  CHECK(room_of(2, 4, kSlot) == 512 << 10);
  CHECK(room_of(2, 8, kSlot) == kSlot);
  CHECK(room_of(2, 4, 1 << 20) == 1 << 20);
  CHECK(room_of(2, 4, 4096) == 512 << 10);
  CHECK(room_of(8, 4, kSlot) == kSlot);
  CHECK(room_of(8, 4, 4096) == (2 << 20) / 4 / 7 / 64 * 64);
  CHECK(room_of(4096, 64, 256 << 20) == 256 << 20);
  CHECK(room_of(1, 2, kSlot) == 1 << 20);
}
