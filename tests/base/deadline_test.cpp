#include "base/deadline.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace tutti;

TEST_CASE("a deadline in the past has passed and leaves nothing") {
  for (int64_t timeout_ms : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    auto deadline = Deadline::after_ms(timeout_ms);
    CHECK(deadline.passed());
    CHECK(deadline.left_ms() == 0);
  }
}

TEST_CASE("a deadline in the future leaves at most what was given, and never more than the cap") {
  auto deadline = Deadline::after_ms(3'600'000);
  CHECK_FALSE(deadline.passed());
  CHECK(deadline.left_ms(1 << 30) <= 3'600'000);
  CHECK(deadline.left_ms(1 << 30) > 3'000'000);
  CHECK(deadline.left_ms(50) == 50);
}

TEST_CASE("never does not pass, nor does the longest time overflow") {
  for (auto deadline : {Deadline::never(), Deadline::after_ms(std::numeric_limits<int64_t>::max())}) {
    CHECK_FALSE(deadline.passed());
    CHECK(deadline.left_ms(1000) == 1000);
  }
}
