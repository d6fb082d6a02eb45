#include "core/memory_registry.h"

#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace tutti::test {

TEST_CASE("allocated memory is zero, page aligned, and found by any range inside it") {
  MemoryRegistry registry;
  auto* bytes = static_cast<std::byte*>(registry.allocate(10'000).value());
  CHECK(reinterpret_cast<uintptr_t>(bytes) % 4096 == 0);
  CHECK(std::all_of(bytes, bytes + 10'000, [](std::byte b) { return b == std::byte{0}; }));
  auto found = registry.find(bytes + 5, 9'995);
  REQUIRE(found);
  CHECK(found->region.bytes.data() == bytes);
  CHECK(found->data == bytes + 5);
  CHECK_FALSE(registry.find(bytes + 5, 1'000'000));
  CHECK_FALSE(registry.find(bytes - 1, 1));
  CHECK(registry.free(bytes).ok());
  CHECK_FALSE(registry.find(bytes, 1));
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

namespace {

const size_t kPage = static_cast<size_t>(::sysconf(_SC_PAGESIZE));

std::byte* map_pages(size_t count) {
  void* mapped = ::mmap(nullptr, count * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(mapped != MAP_FAILED);
  return static_cast<std::byte*>(mapped);
}

}  // namespace

TEST_CASE("registered memory is looked at only where the call touches it") {
  MemoryRegistry registry;
  std::byte* bytes = map_pages(8);
  REQUIRE(registry.add({bytes, 8 * kPage}).ok());
  REQUIRE(::mprotect(bytes + kPage, 7 * kPage, PROT_READ) == 0);  // a store there ends the test
  Touched first{.use = Use::kWrite, .begin = 10, .end = 20, .near = 5 * kPage};
  CHECK(registry.find(bytes, 8 * kPage, first));
  Touched none{.use = Use::kWrite, .end = 0};
  CHECK_FALSE(registry.find(bytes, 8 * kPage, none));
  REQUIRE(::mprotect(bytes + kPage, 7 * kPage, PROT_READ | PROT_WRITE) == 0);
  ::munmap(bytes, 8 * kPage);
}

TEST_CASE("a buffer that lies in a page that could not be moved is ordinary memory") {
  MemoryRegistry registry;
  std::byte* bytes = map_pages(16);
  auto key = registry.add({bytes + 1, 15 * kPage});
  REQUIRE(key.ok());
  CHECK_FALSE(registry.find(bytes + 1, kPage - 1));
  CHECK_FALSE(registry.find(bytes + 1, kPage - 1, {.use = Use::kWrite}));
  CHECK(registry.find(bytes + 1, 15 * kPage));
  CHECK(registry.remove(*key).ok());
  ::munmap(bytes, 16 * kPage);
}

TEST_CASE("memory is allocated where some was freed that was still registered", "[kernel]") {
  MemoryRegistry registry;
  std::byte* freed = map_pages(64);
  auto key = registry.add({freed, 64 * kPage});
  REQUIRE(key.ok());
  ::munmap(freed, 64 * kPage);
  std::vector<void*> allocated;
  auto is_there = [&](void* at) { return at == freed; };
  while (allocated.size() < 100 && std::none_of(allocated.begin(), allocated.end(), is_there)) {
    allocated.push_back(registry.allocate(64 * kPage).value());
    std::memset(allocated.back(), 1, 64 * kPage);
    CHECK(registry.find(static_cast<std::byte*>(allocated.back()), 64 * kPage));
  }
  CHECK(std::any_of(allocated.begin(), allocated.end(), is_there));
  for (void* each : allocated) CHECK(registry.free(each).ok());
  CHECK(registry.remove(*key).ok());
}

TEST_CASE("without a file descriptor nothing is taken for freed") {
  MemoryRegistry registry;
  std::byte* bytes = map_pages(8);
  auto key = registry.add({bytes, 8 * kPage});
  REQUIRE(key.ok());
  rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  rlimit none = usual;
  none.rlim_cur = 0;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  auto again = registry.add({bytes, 8 * kPage});
  Status removed = registry.remove(*key);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK(again.status().code() == Code::kSystem);
  CHECK(removed.code() == Code::kSystem);
  CHECK(registry.find(bytes, 8 * kPage));
  CHECK(registry.remove(*key).ok());
  CHECK_FALSE(registry.find(bytes, 8 * kPage));
  ::munmap(bytes, 8 * kPage);
}

TEST_CASE("a size that no memory has is one clear error") {
  MemoryRegistry registry;
  CHECK(registry.allocate(SIZE_MAX).status().code() == Code::kInvalidArgument);
  auto huge = registry.allocate(size_t{1} << 62);
  REQUIRE_FALSE(huge.ok());
  CHECK(huge.status().code() == Code::kSystem);
}

}  // namespace tutti::test
