// Large payloads that ranks which take turns put into two of their slots by turns (SlotRing::large_bytes).
#include <catch2/catch.hpp>
#include <cstring>
#include <deque>
#include <random>
#include <set>

#include "executor/collective.h"

namespace tutti::test {
namespace {

constexpr uint64_t kSlot = 8192, kLarge = 4096, kSignature = 5;

StreamLayout layout_of(int slots) {
  StreamLayout layout{.nranks = 3, .channels = 2, .slots = slots, .slot_bytes = kSlot};
  layout.mapped_slots.large_bytes = kLarge;
  return layout;
}

// One channel's stream from rank 0 to rank 1.
class Stream {
 public:
  explicit Stream(int slots, int channel = 0)
      : ranks_(layout_of(slots), fabric("shm").make),
        to_(ranks_[0].peers()[1]->send_stream(channel)),
        from_(ranks_[1].peers()[0]->recv_stream(channel)) {}

  bool has_room() const { return to_.has_room(); }
  size_t on_the_way() const { return sizes_.size(); }
  // Its place in the peer's arena.
  const std::byte* send(uint64_t size_bytes) {
    REQUIRE(to_.has_room());
    std::byte* slot = to_.slot(size_bytes, Spread());
    std::memset(slot, mark(sent_), size_bytes);
    Message message{.kind = MessageKind::kSlot, .size_bytes = size_bytes, .chunk_bytes = size_bytes};
    REQUIRE(to_.send(message, kSignature, slot).ok());
    sizes_.push_back(size_bytes);
    ++sent_;
    return slot;
  }
  void receive() {
    REQUIRE(from_.ready());
    Message message = decode(from_.next_line());
    const std::byte* payload = from_.payload_in_slot(message);
    REQUIRE(payload != nullptr);
    REQUIRE(message.size_bytes == sizes_.front());
    const std::vector<std::byte> expected(message.size_bytes, static_cast<std::byte>(mark(received_)));
    if (std::memcmp(payload, expected.data(), expected.size()) != 0) FAIL("message " << received_ << " is not as sent");
    from_.take(MessageKind::kSlot, payload, message.size_bytes, Lent::kNo);
    from_.release();
    sizes_.pop_front();
    ++received_;
  }

 private:
  static int mark(uint64_t number) { return static_cast<int>(number % 251); }

  Ranks ranks_;
  SendStream& to_;
  RecvStream& from_;
  std::deque<uint64_t> sizes_;
  uint64_t sent_ = 0, received_ = 0;
};

}  // namespace

TEST_CASE("large payloads in a row are in two slots, all others in as many as there are") {
  const int slots = GENERATE(2, 3, 4, 7);
  Stream stream(slots);
  auto places = [&](uint64_t size_bytes) {
    std::set<const std::byte*> seen;
    for (int i = 0; i < 30; ++i) {
      seen.insert(stream.send(size_bytes));
      stream.receive();
    }
    return static_cast<int>(seen.size());
  };
  for (int i = 0; i < 3; ++i) {
    INFO(slots << " slots, time " << i);
    CHECK(places(kLarge) == slots);
    CHECK(places(kLarge + 1) == 2);
    CHECK(places(kSlot) == 2);
  }
}

TEST_CASE("of large payloads two are on the way, of others as many as there are slots") {
  const int slots = GENERATE(2, 3, 4, 7);
  Stream stream(slots);
  auto most_on_the_way = [&](uint64_t size_bytes) {
    while (stream.has_room()) stream.send(size_bytes);
    auto most = static_cast<int>(stream.on_the_way());
    while (stream.on_the_way() > 0) stream.receive();
    return most;
  };
  CHECK(most_on_the_way(kLarge) == slots);
  for (int i = 0; i < 10; ++i) CHECK(most_on_the_way(kSlot) == 2);
  for (int i = 0; i < 10; ++i) CHECK(most_on_the_way(1) >= certain_slots(slots));
}

TEST_CASE("whatever sizes follow each other, there is room for a second payload, and none lies on another") {
  const int slots = GENERATE(2, 3, 4, 5, 7);
  const int channel = GENERATE(0, 1);
  INFO(slots << " slots, channel " << channel);
  Stream stream(slots, channel);
  std::mt19937 random(static_cast<unsigned>(slots));
  for (int i = 0; i < 20'000; ++i) {
    bool is_large = random() % 2 == 0;
    stream.send(is_large ? kLarge + 1 + random() % (kSlot - kLarge) : 1 + random() % kLarge);
    // As many more as there is room for, now and then.
    bool fills = random() % 8 == 0;
    while (fills && stream.has_room()) stream.send(1 + random() % kSlot);
    while (stream.on_the_way() > 1) stream.receive();
  }
}

TEST_CASE("payloads for a peer that is reached over a network, and messages of their own, are never large") {
  StreamLayout layout = layout_of(4);
  CHECK(layout.large_bytes(0, true) == kLarge);
  CHECK(layout.large_bytes(0, false) == UINT64_MAX);
  CHECK(layout.large_bytes(layout.direct_channel(), true) == UINT64_MAX);
  layout.mapped_slots.most = 2;
  CHECK(layout.large_bytes(0, true) == UINT64_MAX);
}

}  // namespace tutti::test
