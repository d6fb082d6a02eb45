// Whether payloads are stored into slots through the caches or past them (executor/slot_stores.h).
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "executor/slot_stores.h"

using namespace tutti;

namespace {

// What a payload takes when it is stored like this.
using Cost = std::function<double(Store way)>;

constexpr float kMemoryNsPerByte = 0.1F;

double near(Store way) { return way == Store::kCached ? 0.05 : 0.08; }
double far(Store way) { return way == Store::kCached ? 0.5 : 0.05; }

// Far from a peer, of payloads that go to so many places in turn: through the caches one is quick where the one before
// it went past them.
Cost far_by_place(uint64_t places) {
  return [last = std::vector<Store>(places, Store::kCached), place = size_t{0}](Store way) mutable {
    Store before = std::exchange(last[place++ % last.size()], way);
    if (way == Store::kStreaming) return 0.05;
    return before == Store::kStreaming ? 0.08 : 0.5;
  };
}

constexpr uint64_t kPlaces = 24;

// So many payloads; how many of them were stored past the caches.
int send(SlotStores& stores, int count, uint64_t size_bytes, const Cost& ns_per_byte, uint64_t places = kPlaces,
         PayloadOrigin origin = PayloadOrigin::kCopied) {
  int past_caches = 0;
  for (int i = 0; i < count; ++i) {
    bool begins = stores.is_trial(origin, size_bytes) && stores.begins(origin, size_bytes);
    if (begins) stores.begin(origin, size_bytes, places);
    Store way = stores.way(origin, size_bytes);
    past_caches += way == Store::kStreaming;
    double ns = ns_per_byte(way) * static_cast<double>(size_bytes);
    if (stores.is_trial(origin, size_bytes)) {
      stores.took(origin, size_bytes, static_cast<uint64_t>(ns), kMemoryNsPerByte);
    }
    stores.count(size_bytes);
  }
  return past_caches;
}

}  // namespace

#ifdef __SSE2__

TEST_CASE("near a peer payloads go through the caches, far from it past them, and whichever it is can change") {
  const uint64_t size = GENERATE(uint64_t{1024}, 5000, uint64_t{1} << 20);
  SlotStores stores;
  send(stores, 1000, size, near);
  CHECK(stores.way(PayloadOrigin::kCopied, size) == Store::kCached);
  send(stores, 5000, size, far);
  CHECK(send(stores, 1000, size, far) >= 960);
  send(stores, 15'000, size, near);
  CHECK(send(stores, 1000, size, near) <= 10);
}

TEST_CASE("that a store is quick after one past the caches does not count, far from a peer") {
  const uint64_t size = GENERATE(uint64_t{8} << 10, uint64_t{128} << 10);
  const uint64_t count = size == 8 << 10 ? 256 : 16;
  const Cost cost = far_by_place(count);
  SlotStores stores;
  send(stores, 1000, size, cost, count);
  CHECK(send(stores, 50'000, size, cost, count) >= 49'000);
  send(stores, 40'000, size, near, count);
  CHECK(stores.way(PayloadOrigin::kCopied, size) == Store::kCached);
}

TEST_CASE("what the sender saves has to be more than the receiver may lose") {
  SlotStores stores;
  auto few_places = [](Store way) { return way == Store::kCached ? 0.08 : 0.02; };
  send(stores, 1000, 4096, few_places);
  CHECK(stores.way(PayloadOrigin::kCopied, 4096) == Store::kCached);
}

TEST_CASE("trials become rare where they find the same again") {
  SlotStores stores;
  const uint64_t size = 64 << 10;
  CHECK(send(stores, 100, size, near) >= 3);
  send(stores, 20'000, size, near);
  CHECK(send(stores, 40'000, size, near) <= 40);
}

TEST_CASE("sizes are tried apart, and small ones not at all") {
  SlotStores stores;
  send(stores, 1000, 64 << 10, far);
  CHECK(stores.way(PayloadOrigin::kCopied, 64 << 10) == Store::kStreaming);
  CHECK(stores.way(PayloadOrigin::kCopied, 4096) == Store::kCached);
  CHECK(send(stores, 1000, 1023, far) == 0);
  CHECK_FALSE(stores.is_trial(PayloadOrigin::kCopied, 1023));
}

TEST_CASE("what is computed is tried apart from copies, and what lies nowhere else not at all") {
  SlotStores stores;
  const uint64_t size = 64 << 10;
  send(stores, 5000, size, near);
  send(stores, 5000, size, far, kPlaces, PayloadOrigin::kComputed);
  CHECK(stores.way(PayloadOrigin::kCopied, size) == Store::kCached);
  CHECK(stores.way(PayloadOrigin::kComputed, size) == Store::kStreaming);
  CHECK(stores.are_apart(PayloadOrigin::kComputed, size));
  CHECK(stores.way(PayloadOrigin::kUnseen, size) == Store::kCached);
  CHECK(send(stores, 5000, size, far, kPlaces, PayloadOrigin::kUnseen) == 0);
  CHECK_FALSE(stores.are_apart(PayloadOrigin::kUnseen, size));
}

TEST_CASE("where two origins take turns in few places a trial's stores past the caches do not make the others quick") {
  const uint64_t count = GENERATE(uint64_t{2}, 6);
  const uint64_t size = 64 << 10;
  const Cost cost = far_by_place(count);
  SlotStores stores;
  for (int i = 0; i < 20'000; ++i) {
    send(stores, 1, size, cost, count);
    send(stores, 1, size, cost, count, PayloadOrigin::kComputed);
  }
  CHECK(stores.way(PayloadOrigin::kCopied, size) == Store::kStreaming);
  CHECK(stores.way(PayloadOrigin::kComputed, size) == Store::kStreaming);
}

TEST_CASE("what is stored is the value, in whatever way, of any size and at any place") {
  for (PayloadOrigin origin : {PayloadOrigin::kCopied, PayloadOrigin::kComputed}) {
    for (uint64_t size : {1, 1024, 1025, 4095, 70'001}) {
      SlotStores stores;
      std::vector<std::byte> from(size + 1), slot(size + 8);
      for (int i = 0; i < 400; ++i) {
        size_t offset = static_cast<size_t>(i) % 7;
        for (size_t at = 0; at < size; ++at) from[at] = static_cast<std::byte>(at * 31 + static_cast<size_t>(i));
        stores.store(origin, slot.data() + offset, from.data(), size, kPlaces, kMemoryNsPerByte);
        stores.count(size);
        if (!std::equal(from.begin(), from.end() - 1, slot.begin() + static_cast<ptrdiff_t>(offset))) {
          FAIL("size " << size << ", payload " << i);
        }
      }
    }
  }
}

TEST_CASE("payloads that were disturbed do not decide") {
  SlotStores stores;
  int number = 0;
  // The quickest of three in each way counts.
  Cost disturbed = [&](Store way) {
    bool is_quiet = way == Store::kStreaming || ++number % 3 == 0;
    return is_quiet ? near(way) : 40 * near(way);
  };
  send(stores, 10'000, 8192, disturbed);
  CHECK(stores.way(PayloadOrigin::kCopied, 8192) == Store::kCached);
}

#else

TEST_CASE("where the kernels have no stores past the caches, nothing is tried") {
  SlotStores stores;
  CHECK(send(stores, 1000, 64 << 10, far) == 0);
  CHECK_FALSE(stores.is_trial(PayloadOrigin::kCopied, 64 << 10));
  CHECK(send(stores, 1000, 1023, near) == 0);
}

#endif
