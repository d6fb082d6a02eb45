#include "core/staging_pool.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

namespace tutti::test {
namespace {

std::vector<StagingPool::Memory> take_all(StagingPool& pool, const std::vector<uint64_t>& sizes) {
  std::vector<StagingPool::Memory> taken;
  for (uint64_t size : sizes) {
    auto memory = pool.take(size);
    if (memory.ok()) taken.push_back(std::move(*memory));
  }
  return taken;
}

std::set<const std::byte*> places_of(const std::vector<StagingPool::Memory>& memory) {
  std::set<const std::byte*> places;
  for (const StagingPool::Memory& each : memory) places.insert(each.data());
  return places;
}

}  // namespace

TEST_CASE("staging memory is used again, however much of it is used at once") {
  MemoryRegistry registry;
  StagingPool pool(registry);
  const std::vector<uint64_t> sizes = {1000, 640'000, 640'000, 640'000, 640'000, 640'000, 3'000'000, 5'000'000};
  std::set<const std::byte*> first = places_of(take_all(pool, sizes));
  CHECK(first.size() == sizes.size());
  CHECK(pool.idle_bytes() > 0);
  CHECK(places_of(take_all(pool, sizes)) == first);
}

TEST_CASE("what is unused the longest makes room") {
  constexpr uint64_t kLarge = 32 * 1024 * 1024;
  MemoryRegistry registry;
  StagingPool pool(registry);
  const std::byte* oldest = pool.take(kLarge)->data();
  std::vector<StagingPool::Memory> both = take_all(pool, {kLarge, kLarge / 2});
  const std::byte* small = both[1].data();
  CHECK(both[0].data() == oldest);
  auto another = pool.take(kLarge);
  const std::byte* newest = another->data();
  both.clear();
  { StagingPool::Memory ends_last = std::move(*another); }
  CHECK(pool.idle_bytes() == kLarge + kLarge / 2);
  CHECK(pool.take(kLarge)->data() == newest);
  CHECK(pool.take(kLarge / 2)->data() == small);
}

TEST_CASE("memory that is too large to be kept makes nothing else go") {
  MemoryRegistry registry;
  StagingPool pool(registry);
  const std::byte* small = pool.take(1000)->data();
  uint64_t idle = pool.idle_bytes();
  take_all(pool, {256 * 1024 * 1024});
  CHECK(pool.idle_bytes() == idle);
  CHECK(pool.take(1000)->data() == small);
}

TEST_CASE("abandoned memory serves nobody else") {
  MemoryRegistry registry;
  StagingPool pool(registry);
  const std::byte* place = nullptr;
  {
    auto memory = pool.take(1000);
    place = memory->data();
    memory->abandon();
    *memory->data() = std::byte{1};  // it may still be used until it ends
    CHECK(registry.find(place, 1));
  }
  CHECK(pool.idle_bytes() == 0);
  CHECK(!registry.find(place, 1));
}

}  // namespace tutti::test
