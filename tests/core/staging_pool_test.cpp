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
  take_all(pool, {kLarge, kLarge, kLarge / 2});
  CHECK(pool.idle_bytes() <= 2 * kLarge);
  take_all(pool, {8 * kLarge});
  CHECK(pool.idle_bytes() <= 2 * kLarge);
}

}  // namespace tutti::test
