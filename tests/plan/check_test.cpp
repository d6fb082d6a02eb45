// The checker must find what it is there to find: permissions that a plan does not deserve.
#include <catch2/catch.hpp>

#include "plan/examples.h"
#include "plan/validate.h"

namespace tutti {
namespace {

// The first seed of some at which the checker refuses, 0 when none does.
uint64_t refused_at(const Plan& plan, CheckOptions options, std::string* reason = nullptr) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    options.seed = seed;
    Status status = check_symbolically(plan, options);
    if (status.ok()) continue;
    if (reason != nullptr) *reason = status.message();
    return seed;
  }
  return 0;
}

TEST_CASE("one-shot and recursive doubling by reference are only wrong in place") {
  CheckOptions options;
  options.by_reference = true;
  for (auto [algorithm, nranks] :
       {std::pair{"direct_one_shot", 3}, {"recursive_doubling", 2}, {"recursive_doubling", 4}}) {
    Plan plan = test::write_out(algorithm, nranks).plan();
    INFO(algorithm << " of " << nranks);
    options.in_place = true;
    CHECK(refused_at(plan, options) != 0);
    options.in_place = false;
    CHECK(refused_at(plan, options) == 0);
  }
}

TEST_CASE("storing a final value before its receiver's input was read is found when it is in place") {
  // Rank 0 sends its input into rank 1's output although nobody has read rank 1's input there.
  test::WrittenPlan plan = test::write_out("direct_two_shot", 2);
  for (int rank : {0, 1}) {
    int peer = 1 - rank;
    Step early_put{.kind = StepKind::kPut, .peer = peer, .into = rank, .sources = {input(rank)}};
    Step early_wait{.kind = StepKind::kWait, .peer = peer, .into = peer};
    std::vector<Step>& steps = plan.steps(rank);
    steps.insert(steps.begin(), {early_put, early_wait});
  }
  CheckOptions options;
  options.slices = 1;
  options.in_place = true;
  CHECK(refused_at(plan.plan(), options) != 0);
  options.in_place = false;
  CHECK(refused_at(plan.plan(), options) == 0);
}

TEST_CASE("ranks that combine in different orders are found") {
  test::WrittenPlan plan = test::write_out("direct_one_shot", 3);
  std::string reason;
  REQUIRE(refused_at(plan.plan(), {}) == 0);
  std::vector<Place>& sources = plan.steps(1).back().sources;
  std::swap(sources[0], sources[2]);
  REQUIRE(refused_at(plan.plan(), {}, &reason) != 0);
  REQUIRE_THAT(reason, Catch::Matchers::Contains("differs from another rank's in how it was computed"));
}

TEST_CASE("outputs that lack, repeat or do not finish a contribution are found by name") {
  std::string reason;
  test::WrittenPlan plan = test::write_out("direct_one_shot", 3);
  for (int rank = 0; rank < 3; ++rank) plan.steps(rank).back().finish = false;
  REQUIRE(refused_at(plan.plan(), {}, &reason) != 0);
  REQUIRE_THAT(reason, Catch::Matchers::Contains("was not finished"));

  plan = test::write_out("direct_one_shot", 3);
  for (int rank = 0; rank < 3; ++rank) plan.steps(rank).back().sources.push_back(input(0));
  REQUIRE(refused_at(plan.plan(), {}, &reason) != 0);
  REQUIRE_THAT(reason, Catch::Matchers::Contains("counts the contribution of rank"));

  plan = test::write_out("direct_one_shot", 1);
  plan.steps(0).clear();
  REQUIRE(refused_at(plan.plan(), {}, &reason) != 0);
  REQUIRE_THAT(reason, Catch::Matchers::Contains("was never written"));
}

}  // namespace
}  // namespace tutti
