#include "core/memory_registry.h"

#include <catch2/catch.hpp>

namespace tutti::test {

TEST_CASE("allocated memory is zero, page aligned, and found by any range inside it") {
  MemoryRegistry registry;
  auto* bytes = static_cast<std::byte*>(registry.allocate(10'000).value());
  CHECK(reinterpret_cast<uintptr_t>(bytes) % 4096 == 0);
  CHECK(std::all_of(bytes, bytes + 10'000, [](std::byte b) { return b == std::byte{0}; }));
  auto found = registry.find(bytes + 5, 9'995, Use::kRead);
  REQUIRE(found);
  CHECK(found->region.bytes.data() == bytes);
  CHECK(found->data == bytes + 5);
  CHECK_FALSE(registry.find(bytes + 5, 1'000'000, Use::kRead));
  CHECK_FALSE(registry.find(bytes - 1, 1, Use::kRead));
  CHECK(registry.free(bytes).ok());
  CHECK_FALSE(registry.find(bytes, 1, Use::kRead));
}

TEST_CASE("freeing what was not allocated is refused") {
  MemoryRegistry registry;
  int other = 0;
  CHECK(registry.free(&other).code() == Code::kInvalidArgument);
  void* pointer = registry.allocate(1).value();
  CHECK(registry.free(pointer).ok());
  CHECK(registry.free(pointer).code() == Code::kInvalidArgument);
}

TEST_CASE("listeners hear of a region before it goes, until they are removed") {
  MemoryRegistry registry;
  std::vector<uint64_t> heard;
  registry.add_listener(&heard, [&](const MemoryRegion& region) { heard.push_back(region.key); });
  void* first = registry.allocate(1).value();
  void* second = registry.allocate(1).value();
  CHECK(registry.free(first).ok());
  registry.remove_listener(&heard);
  CHECK(registry.free(second).ok());
  CHECK(heard == std::vector<uint64_t>{1});
}

TEST_CASE("a size that no memory has is one clear error") {
  MemoryRegistry registry;
  CHECK(registry.allocate(SIZE_MAX).status().code() == Code::kInvalidArgument);
  auto huge = registry.allocate(size_t{1} << 62);
  REQUIRE_FALSE(huge.ok());
  CHECK(huge.status().code() == Code::kSystem);
}

}  // namespace tutti::test
