#include "benchmarks/crossovers.h"

#include <catch2/catch.hpp>

namespace tutti::bench {
namespace {

using Crossovers = std::vector<Crossover>;

TunedRow row(uint64_t size_bytes, const std::string& fastest, double gain) {
  return {size_bytes, {"usual", gain}, {fastest, 1}};
}

}  // namespace

TEST_CASE("where the default is the fastest everywhere that is said; where nothing was measured, nothing is") {
  CHECK(crossovers({}).empty());
  CHECK(crossovers({row(64, "usual", 1), row(256, "usual", 1)}) == Crossovers{{256, ""}});
}

TEST_CASE("gains that may be noise do not count") {
  CHECK(crossovers({row(64, "ring", 1.04), row(256, "ring", 1.01)}) == Crossovers{{256, ""}});
}

TEST_CASE("sizes between powers of two stand for their class") {
  CHECK(crossovers({row(64, "usual", 1), row(1000, "ring", 2)}) == Crossovers{{256, ""}, {1024, "ring"}});
  CHECK(crossovers({row(64, "usual", 1), row(600, "tree", 2), row(1000, "ring", 2), row(4000, "ring", 2)}) ==
        Crossovers{{256, ""}, {4096, "ring"}});
}

TEST_CASE("borders are geometric means, and beyond the largest size nothing is known") {
  CHECK(crossovers({row(64, "tree", 2), row(256, "usual", 1), row(1024, "ring", 1.2)}) ==
        Crossovers{{128, "tree"}, {512, ""}, {1024, "ring"}});
}

TEST_CASE("neighbours with the same algorithm are one") {
  CHECK(crossovers({row(64, "tree", 2), row(256, "tree", 1.1), row(1024, "usual", 1), row(4096, "usual", 1)}) ==
        Crossovers{{512, "tree"}, {4096, ""}});
}

TEST_CASE("below the smallest size nothing is known, unless that is in the first size class") {
  CHECK(crossovers({row(8, "tree", 2)}) == Crossovers{{64, "tree"}});
  CHECK(crossovers({row(64, "tree", 2)}) == Crossovers{{64, "tree"}});
  CHECK(crossovers({row(1024, "tree", 2)}) == Crossovers{{1023, ""}, {1024, "tree"}});
}

}  // namespace tutti::bench
