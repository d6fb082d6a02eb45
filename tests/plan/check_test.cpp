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
  options.use_permissions = true;
  for (auto [algorithm, nranks] :
       {std::pair{"direct_one_shot", 3}, {"recursive_doubling", 2}, {"recursive_doubling", 4}}) {
    test::WrittenPlan plan = test::write_out(algorithm, nranks);
    INFO(algorithm << " of " << nranks);
    plan.shape.by_reference = Permission::kAlways;
    options.in_place = InPlace::kAll;
    CHECK(refused_at(plan.plan(), options) != 0);
    options.in_place = InPlace::kSome;
    CHECK(refused_at(plan.plan(), options) != 0);
    options.in_place = InPlace::kNone;
    CHECK(refused_at(plan.plan(), options) == 0);
    plan.shape.by_reference = Permission::kUnlessInPlace;
    options.in_place = InPlace::kSome;
    CHECK(refused_at(plan.plan(), options) == 0);
  }
}

TEST_CASE("storing a final value before its receiver's input was read is found when it is in place") {
  // Rank 0 sends its input into rank 1's output although nobody has read rank 1's input there.
  test::WrittenPlan plan = test::write_out("direct_two_shot", 2);
  plan.shape.by_chunk = false;  // which asks for an exchange before
  for (int rank : {0, 1}) {
    int peer = 1 - rank;
    Step early_put{.kind = StepKind::kPut, .peer = peer, .into = rank, .sources = {input(rank)}};
    Step early_wait{.kind = StepKind::kWait, .peer = peer, .into = peer};
    std::vector<Step>& steps = plan.steps(rank);
    steps.insert(steps.begin(), {early_put, early_wait});
  }
  CheckOptions options;
  options.slices = 1;
  options.in_place = InPlace::kAll;
  CHECK(refused_at(plan.plan(), options) != 0);
  options.in_place = InPlace::kNone;
  CHECK(refused_at(plan.plan(), options) == 0);
}

TEST_CASE("a chunk that is lent with one message, and overwritten by a peer before this rank has read it, is found") {
  // In place rank 1 stores its result where rank 0's input was. It may, as rank 0 sends it each slice only after it has
  // read it for rank 2; but not if the first one's message stands for all.
  test::WrittenPlan plan = test::write_out("direct_one_shot", 3);
  auto wait_for = [](int peer, int into = kNoChunk) {
    return Step{.kind = StepKind::kWait, .peer = peer, .into = into};
  };
  auto put_to = [](int peer, std::vector<Place> sources, int into = kNoChunk) {
    return Step{.kind = StepKind::kPut, .peer = peer, .into = into, .sources = std::move(sources)};
  };
  auto sum = [](Place first, Place second, Place third, Place to) {
    return Step{.kind = StepKind::kReduce, .finish = true, .sources = {first, second, third}, .destinations = {to}};
  };
  plan.steps(0) = {put_to(2, {}), wait_for(1), wait_for(2), sum(input(0), arrival(1), arrival(2), temp(9)),
                   put_to(2, {temp(9)}, 0), put_to(1, {input(0)}), wait_for(1, 0)};
  plan.steps(1) = {put_to(0, {input(0)}), wait_for(0), wait_for(2),
                   sum(arrival(0), input(0), arrival(2), output(0)), put_to(0, {output(0)}, 0)};
  Step copied{.kind = StepKind::kCopy, .sources = {input(0)}, .destinations = {temp(0)}};
  plan.steps(2) = {copied, put_to(0, {temp(0)}), put_to(1, {temp(0)}), wait_for(0), wait_for(0, 0)};
  plan.shape.by_reference = plan.shape.deliver_directly = Permission::kAlways;
  CheckOptions options{.use_permissions = true};
  for (InPlace in_place : {InPlace::kNone, InPlace::kAll}) {
    options.in_place = in_place;
    INFO("in place " << static_cast<int>(in_place));
    plan.shape.by_chunk = false;
    CHECK(refused_at(plan.plan(), options) == 0);
    plan.shape.by_chunk = true;
    CHECK((refused_at(plan.plan(), options) != 0) == (in_place == InPlace::kAll));
  }
}

TEST_CASE("results by chunk need an exchange before, and nobody who reads them at once") {
  auto refusal = [](const Algorithm& algorithm) {
    test::WrittenPlan plan = test::write_out(algorithm, 4);
    plan.shape.by_chunk = true;
    return std::string(validate(plan.plan()).message());
  };
  CHECK_THAT(refusal(*find_algorithm(TUTTI_ALL_GATHER, "direct")),
             Catch::Matchers::Contains("by_chunk is 1, but no wait on the peer, not into an output, comes before"));
  CHECK_THAT(refusal(*find_algorithm(TUTTI_ALL_REDUCE, "ring")), Catch::Matchers::Contains("no wait on the peer"));
  CHECK_THAT(refusal(*find_algorithm(TUTTI_GATHER, "sequential")), Catch::Matchers::Contains("comes before"));
  CHECK_THAT(refusal(*find_algorithm(TUTTI_SCATTER, "direct")), Catch::Matchers::Contains("comes before"));
  // A wait for a result that comes by chunk hears nothing but at the end.
  test::WrittenPlan gather = test::write_out(*find_algorithm(TUTTI_ALL_GATHER, "direct"), 2);
  gather.shape.by_chunk = true;
  for (int rank : {0, 1}) {
    int peer = 1 - rank;
    Step signal{.kind = rank == 0 ? StepKind::kPut : StepKind::kWait, .peer = peer};
    Step sends{.kind = StepKind::kPut, .peer = peer, .into = rank, .sources = {input(rank)}};
    Step gets{.kind = StepKind::kWait, .peer = peer, .into = peer};
    Step own{.kind = StepKind::kCopy, .sources = {input(rank)}, .destinations = {output(rank)}};
    gather.steps(rank) = {signal, rank == 0 ? gets : sends, rank == 0 ? sends : gets, own};
  }
  const std::string deaf(validate(gather.plan()).message());
  CHECK_THAT(deaf, Catch::Matchers::Contains("no wait on the peer, not into an output, comes before"));
  test::WrittenPlan plan = test::write_out("direct_two_shot", 2);
  for (Permission by_reference : {Permission::kNever, Permission::kUnlessInPlace, Permission::kAlways}) {
    plan.shape.by_reference = by_reference;
    CHECK(prove(plan.plan(), 2).message() == "");
    // Who lends nothing may be in the next call while its last results are still to come.
    CHECK(refused_at(plan.plan(), {.use_permissions = true}) == 0);
  }
  plan.steps(0).push_back({.kind = StepKind::kCopy, .lag = 2, .sources = {output(1)}, .destinations = {temp(9)}});
  const std::string reads(validate(plan.plan()).message());
  CHECK_THAT(reads, Catch::Matchers::Contains("its section reads what comes into the output"));
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
  REQUIRE_THAT(reason, Catch::Matchers::Contains("stores a partial result into an output"));

  plan = test::write_out("direct_one_shot", 1);
  plan.steps(0).back().finish = false;
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

TEST_CASE("a partial result in an output is found, computed there or received") {
  std::string reason;
  test::WrittenPlan plan = test::write_out("ring", 3);
  for (int rank = 0; rank < 3; ++rank) {  // of the chunk that the rank passes on, which its output gets later
    for (Step& step : plan.steps(rank)) {
      bool keeps = step.kind == StepKind::kReduce && step.destinations[0] == temp(0);
      if (keeps) step.destinations.push_back(output(step.sources[1].index));
    }
  }
  REQUIRE(refused_at(plan.plan(), {}, &reason) != 0);
  CHECK_THAT(reason, Catch::Matchers::Contains("(reduce output[") || Catch::Matchers::Contains("(reduce temp[0]"));
  CHECK_THAT(reason, Catch::Matchers::Contains("stores a partial result into an output"));

  plan = test::write_out("binomial_tree", 4);  // rank 2 sends rank 0 what ranks 2 and 3 have
  for (Step& step : plan.steps(2)) {
    if (step.kind == StepKind::kPut && step.peer == 0) step.into = 0;
  }
  std::vector<Step>& steps = plan.steps(0);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind == StepKind::kWait && steps[i].peer == 2) {
      steps[i].into = 0;
      steps.erase(steps.begin() + static_cast<ptrdiff_t>(i) + 1);  // the reduction that used it
    }
  }
  REQUIRE(refused_at(plan.plan(), {}, &reason) != 0);
  CHECK_THAT(reason, Catch::Matchers::Contains("rank 2") &&
                         Catch::Matchers::Contains("stores a partial result into an output"));
}

test::WrittenPlan write_out(Collective collective, std::string_view algorithm, int nranks) {
  return test::write_out(*find_algorithm(collective, algorithm), nranks);
}

TEST_CASE("the data of a wrong rank is found by name") {
  test::WrittenPlan plan = write_out(TUTTI_ALL_GATHER, "direct", 3);
  // Ranks 1 and 2 pass their blocks off as each other's.
  for (std::vector<Step>* steps : {&plan.steps(0), &plan.steps(1), &plan.steps(2)}) {
    for (Step& step : *steps) {
      if (step.into == 1 || step.into == 2) step.into = 3 - step.into;
    }
  }
  std::string reason;
  REQUIRE(refused_at(plan.plan(), {}, &reason) != 0);
}

TEST_CASE("an exchange in place that stores before it has sent is found") {
  test::WrittenPlan plan = write_out(TUTTI_ALL_TO_ALL, "direct", 3);
  REQUIRE(refused_at(plan.plan(), {.in_place = InPlace::kAll, .use_permissions = true}) == 0);
  plan.shape.deliver_directly = Permission::kAlways;
  CHECK(refused_at(plan.plan(), {.in_place = InPlace::kAll, .use_permissions = true}) != 0);
  plan.shape.deliver_directly = Permission::kNever;
  plan.shape.by_reference = Permission::kAlways;
  CHECK(refused_at(plan.plan(), {.in_place = InPlace::kAll, .use_permissions = true}) != 0);
}

TEST_CASE("a barrier that a rank leaves before another has entered is found") {
  test::WrittenPlan plan = write_out(TUTTI_BARRIER, "dissemination", 4);
  REQUIRE(refused_at(plan.plan(), {}) == 0);
  for (int rank = 0; rank < 4; ++rank) plan.steps(rank).resize(2);  // only the first hop
  std::string reason;
  REQUIRE(refused_at(plan.plan(), {}, &reason) != 0);
  REQUIRE_THAT(reason, Catch::Matchers::Contains("leaves barrier"));
}

}  // namespace
}  // namespace tutti
