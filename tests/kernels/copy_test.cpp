#include <catch2/catch.hpp>

#include <algorithm>

#include "kernels/cases.h"

namespace tutti {
namespace {

TEST_CASE("copy moves exactly the bytes asked for, from and to any alignment") {
  std::mt19937_64 random(1);
  for_each_target([&] {
    for (const Store store : {Store::kCached, Store::kStreaming}) {
      for (const size_t size : {0, 1, 2, 15, 16, 63, 64, 65, 127, 128, 255, 256, 257, 511, 1000, 4096, 100'001}) {
        for (const size_t misalignment : {0, 1, 8, 16, 33, 63}) {
          GuardedBuffer from(size, random() % 64);
          GuardedBuffer to(size, misalignment);
          fill_with_values(from.bytes(), TUTTI_UINT8, random);
          copy(to.data(), from.data(), size, store);
          const bool equal = std::equal(from.bytes().begin(), from.bytes().end(), to.data());
          if (!equal || !to.guards_intact()) FAIL_CHECK(size << " bytes to misalignment " << misalignment);
        }
      }
    }
  });
}

}  // namespace
}  // namespace tutti
