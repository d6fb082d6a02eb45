#include "executor/buffer_pool.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <vector>

namespace tutti::test {

TEST_CASE("buffers are taken from what was given back") {
  BufferPool pool;
  std::byte* first = nullptr;
  {
    BufferPool::Buffer buffer = pool.take(1000);
    first = buffer.data();
    CHECK(buffer.size() >= 1000);
    CHECK(reinterpret_cast<uintptr_t>(first) % 64 == 0);
    std::memset(first, 1, buffer.size());
    CHECK(pool.idle_bytes() == 0);
  }
  CHECK(pool.idle_bytes() >= 1000);
  BufferPool::Buffer again = pool.take(900);
  CHECK(again.data() == first);
  CHECK(pool.take(900).data() != first);
  BufferPool::Buffer moved = std::move(again);
  CHECK(moved.data() == first);
  moved = {};
  CHECK(pool.take(1).data() != nullptr);
}

TEST_CASE("a pool does not hoard") {
  constexpr size_t kLarge = 32 * 1024 * 1024;
  BufferPool pool;
  {
    std::vector<BufferPool::Buffer> buffers;
    for (int i = 0; i < 8; ++i) buffers.push_back(pool.take(kLarge));
    std::set<std::byte*> places;
    for (auto& buffer : buffers) places.insert(buffer.data());
    CHECK(places.size() == buffers.size());
  }
  CHECK(pool.idle_bytes() <= 2 * kLarge);
}

}  // namespace tutti::test
