#include <catch2/catch.hpp>

#include "executor/lower.h"
#include "planner/planner.h"

namespace tutti::test {
namespace {

Step put(int peer, Place source, int into = kNoChunk, uint8_t lag = 0) {
  return {.kind = StepKind::kPut, .peer = peer, .into = into, .lag = lag, .sources = {source}};
}
Step wait(int peer, int into = kNoChunk, uint8_t lag = 0) {
  return {.kind = StepKind::kWait, .peer = peer, .into = into, .lag = lag};
}
Step combine(std::vector<Place> destinations, std::vector<Place> sources, uint8_t lag = 0) {
  return {
      .kind = StepKind::kReduce, .lag = lag, .sources = std::move(sources), .destinations = std::move(destinations)};
}
RankPlan part_of(std::vector<Step> steps) { return {{Section{Repeat::kPerSlice, std::move(steps)}}}; }

}  // namespace

TEST_CASE("a temp that only travels needs no storage") {
  Program program = lower(part_of({wait(1), combine({temp(0)}, {input(0), arrival(1)}), put(2, temp(0))}));
  REQUIRE(program.ops.size() == 2);
  CHECK(program.ops[1].destinations.count == 0);
  CHECK(program.ops[1].sends.count == 1);
  CHECK(program.temps == 0);
}

TEST_CASE("a temp that is read again is stored") {
  Program program = lower(
      part_of({combine({temp(7)}, {input(0), input(1)}), put(2, temp(7)), combine({output(0)}, {temp(7), input(2)})}));
  REQUIRE(program.ops.size() == 2);
  CHECK(program.ops[0].destinations.count == 1);
  CHECK(program.temps == 1);
}

TEST_CASE("puts of one value to several peers become one op") {
  Program program = lower(part_of({put(1, input(0)), put(2, input(0)), put(3, input(1))}));
  REQUIRE(program.ops.size() == 2);
  CHECK(program.ops[0].sends.count == 2);
  CHECK(program.peers == std::vector<int32_t>{1, 2, 3});
}

TEST_CASE("two puts to one peer are two ops") {
  CHECK(lower(part_of({put(1, input(0)), put(1, input(0))})).ops.size() == 2);
  CHECK(lower(part_of({combine({temp(0)}, {input(0), input(1)}), put(1, temp(0)), put(1, temp(0))})).ops.size() == 2);
}

TEST_CASE("puts of another lag do not fuse") {
  Program program = lower(part_of({combine({output(0)}, {input(0), input(1)}, 1), put(1, output(0), 0, 2)}));
  CHECK(program.ops.size() == 2);
  CHECK(program.sections[0].max_lag == 2);
  CHECK(program.temp_copies == 3);
}

TEST_CASE("an arrival is released where it is read for the last time") {
  Program program = lower(part_of({wait(1), combine({temp(0)}, {input(0), arrival(1)}),
                                   combine({output(0)}, {temp(0), arrival(1)}), wait(1, 0), wait(2)}));
  REQUIRE(program.ops.size() == 5);
  CHECK(program.ops[1].releases.count == 0);
  REQUIRE(program.ops[2].releases.count == 1);
  CHECK(program.releases[program.ops[2].releases.first] == 1);
  CHECK_FALSE(program.ops[0].release);
  CHECK(program.ops[3].release);
  CHECK(program.ops[4].release);
}

}  // namespace tutti::test
