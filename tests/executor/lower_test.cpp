#include <catch2/catch.hpp>

#include "executor/lower.h"
#include "planner/algorithms/steps.h"

namespace tutti::test {
namespace {

// The steps of rank 0 among four, lowered.
Program lowered(std::vector<Step> steps, int chunks = 1) {
  PlanShape shape{.collective = TUTTI_ALL_REDUCE, .nranks = 4, .chunks = chunks, .slice_bytes = 64};
  std::vector<RankPlan> parts(shape.nranks);
  parts[0] = one_section(std::move(steps));
  return lower(Plan(shape, std::move(parts)), 0, 0);
}

Step combine(std::vector<Place> sources, Place to, int lag = 0) {
  return reduce(std::move(sources), to, Finish::kNo, lag);
}

}  // namespace

TEST_CASE("a temp that only travels needs no storage") {
  Program program = lowered({wait(1), combine({input(0), arrival(1)}, temp(0)), put(2, temp(0))});
  REQUIRE(program.ops.size() == 2);
  CHECK(program.ops[1].destinations.count == 0);
  CHECK(program.ops[1].sends.count == 1);
  CHECK(program.temps == 0);
}

TEST_CASE("a temp that is read again is stored") {
  Program program =
      lowered({combine({input(0)}, temp(7)), put(2, temp(7)), combine({temp(7), input(0)}, output(0))});
  REQUIRE(program.ops.size() == 2);
  CHECK(program.ops[0].destinations.count == 1);
  CHECK(program.temps == 1);
}

TEST_CASE("puts of one value to several peers become one op") {
  Program program = lowered({put(1, input(0)), put(2, input(0)), put(3, input(1))}, 2);
  REQUIRE(program.ops.size() == 2);
  CHECK(program.ops[0].sends.count == 2);
  CHECK(program.peers == std::vector<int32_t>{1, 2, 3});
}

TEST_CASE("what is copied out of the input is lent from there") {
  Program program = lowered({copy(input(1), output(1)), put(2, output(1)), combine({input(0)}, output(0)),
                             put(3, output(0))},
                            2);
  REQUIRE(program.sends.size() == 2);
  CHECK(program.sends[0].source.space == Space::kInput);
  CHECK(program.sends[0].source.index == 1);
  CHECK(program.sends[1].source.space == Space::kOutput);
}

TEST_CASE("only what the plan itself puts from the input may be sent as whole chunks") {
  Program program = lowered({copy(input(1), output(1)), put(2, output(1)), put(3, input(0)), put(1, output(0))}, 2);
  REQUIRE(program.sends.size() == 3);
  for (size_t i : {0, 1, 2}) CHECK(program.sends[i].is_of_input == (i == 1));
}

TEST_CASE("two puts to one peer are two ops") {
  CHECK(lowered({put(1, input(0)), put(1, input(0))}).ops.size() == 2);
  CHECK(lowered({combine({input(0)}, temp(0)), put(1, temp(0)), put(1, temp(0))}).ops.size() == 2);
}

TEST_CASE("puts of another lag do not fuse") {
  Program program = lowered({combine({input(0)}, output(0), 1), put(1, output(0), 0, 2)});
  REQUIRE(program.ops.size() == 2);
  CHECK(program.ops[1].lag == 2);
}

TEST_CASE("an op knows the chunk that it means, also where only its last use tells") {
  Program program = lowered({put(1, input(2)), wait(1), combine({arrival(1), input(1)}, temp(0)), put(2, temp(0)),
                             wait(2, 0), wait_to_forward(3, 2), put(1, arrival(3))},
                            3);
  std::vector<int> chunks;
  for (const Op& op : program.ops) chunks.push_back(op.chunk);
  CHECK(chunks == std::vector<int>{2, 1, 1, 0, 2, 2});
}

TEST_CASE("a bare signal has no chunk, on either end") {
  Program program = lowered({put_signal(1), wait(2), put(1, input(0))});
  REQUIRE(program.ops.size() == 3);
  CHECK(program.ops[0].chunk == kNoChunk);
  CHECK(program.ops[0].sources.count == 0);
  CHECK(program.ops[0].sends.count == 1);
  CHECK(program.ops[1].chunk == kNoChunk);
  CHECK(program.ops[2].chunk == 0);
}

TEST_CASE("an arrival is released where it is read for the last time") {
  Program program = lowered({wait(1), combine({input(0), arrival(1)}, temp(0)),
                             combine({temp(0), arrival(1)}, output(0)), wait(1, 0), wait(2)});
  REQUIRE(program.ops.size() == 5);
  CHECK(program.ops[1].releases.count == 0);
  REQUIRE(program.ops[2].releases.count == 1);
  CHECK(program.releases[program.ops[2].releases.first] == 1);
  CHECK_FALSE(program.ops[0].release);
  CHECK(program.ops[3].release);
  CHECK(program.ops[4].release);
}

TEST_CASE("what comes is a result where nothing reads it, or where it goes, afterwards") {
  CHECK(lowered({wait(1, 0)}).ops[0].is_result);
  CHECK_FALSE(lowered({wait(1, 0), put(2, output(0))}).ops[0].is_result);
  CHECK_FALSE(lowered({wait_to_forward(1, 0), put(2, arrival(1))}).ops[0].is_result);
  CHECK_FALSE(lowered({wait(1), combine({input(0), arrival(1)}, output(0))}).ops[0].is_result);
  Program program = lowered({wait(1, 0), wait(2, 1), put(3, output(1))}, 2);
  CHECK(program.ops[0].is_result);
  CHECK_FALSE(program.ops[1].is_result);
}

}  // namespace tutti::test
