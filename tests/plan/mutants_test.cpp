// Seeded mutants: plans with one small mistake. The validator or the checker must refuse every one.
#include <catch2/catch.hpp>

#include <random>

#include "plan/examples.h"
#include "plan/validate.h"

namespace tutti {
namespace {

using Random = std::mt19937_64;
using test::WrittenPlan;

bool refused(const Plan& plan) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    for (InPlace in_place : {InPlace::kNone, InPlace::kAll}) {
      CheckOptions options{.slices = 3, .in_place = in_place, .use_permissions = true, .seed = seed};
      if (!check_symbolically(plan, options).ok()) return true;
    }
  }
  return false;
}

std::vector<Step>& any_steps(WrittenPlan& plan, Random& random) {
  auto& sections = plan.parts[random() % plan.parts.size()].sections;
  return sections[random() % sections.size()].steps;
}

Step* any_step(WrittenPlan& plan, Random& random, StepKind kind) {
  std::vector<Step>& steps = any_steps(plan, random);
  std::vector<Step*> fitting;
  for (Step& step : steps) {
    if (step.kind == kind) fitting.push_back(&step);
  }
  return fitting.empty() ? nullptr : fitting[random() % fitting.size()];
}

// Each makes one mistake, and says whether there was something to make it on.
struct Mutation {
  const char* name;
  bool (*apply)(WrittenPlan& plan, Random& random);
};

bool drop(WrittenPlan& plan, Random& random, StepKind kind) {
  std::vector<Step>& steps = any_steps(plan, random);
  std::vector<size_t> fitting;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind == kind) fitting.push_back(i);
  }
  if (fitting.empty()) return false;
  steps.erase(steps.begin() + static_cast<ptrdiff_t>(fitting[random() % fitting.size()]));
  return true;
}

constexpr Mutation kMutations[] = {
    {"a put is dropped", [](WrittenPlan& plan, Random& random) { return drop(plan, random, StepKind::kPut); }},
    {"a wait is dropped", [](WrittenPlan& plan, Random& random) { return drop(plan, random, StepKind::kWait); }},
    {"a reduce is dropped", [](WrittenPlan& plan, Random& random) { return drop(plan, random, StepKind::kReduce); }},
    {"a put is repeated",
     [](WrittenPlan& plan, Random& random) {
       std::vector<Step>& steps = any_steps(plan, random);
       size_t at = random() % steps.size();
       if (steps[at].kind != StepKind::kPut) return false;
       Step again = steps[at];
       steps.insert(steps.begin() + static_cast<ptrdiff_t>(at), again);
       return true;
     }},
    {"a put goes to another rank",
     [](WrittenPlan& plan, Random& random) {
       Step* step = any_step(plan, random, StepKind::kPut);
       if (step == nullptr) return false;
       step->peer = (step->peer + 1) % plan.shape.nranks;
       return true;
     }},
    {"a put sends another chunk",
     [](WrittenPlan& plan, Random& random) {
       Step* step = any_step(plan, random, StepKind::kPut);
       if (step == nullptr || plan.shape.chunks == 1 || step->sources.empty()) return false;
       if (step->sources[0].space == Space::kTemp || step->sources[0].space == Space::kArrival) return false;
       step->sources[0].index = (step->sources[0].index + 1) % plan.shape.chunks;
       return true;
     }},
    {"a put sends the input for the output",
     [](WrittenPlan& plan, Random& random) {
       if (!reduces(plan.shape.collective)) return false;  // both hold the same there
       Step* step = any_step(plan, random, StepKind::kPut);
       if (step == nullptr || step->sources.empty() || step->sources[0].space != Space::kOutput) return false;
       step->sources[0].space = Space::kInput;
       return true;
     }},
    {"a put stores into another chunk, and so does its wait",
     [](WrittenPlan& plan, Random& random) {
       Step* step = any_step(plan, random, StepKind::kPut);
       if (step == nullptr || plan.shape.chunks == 1 || step->into == kNoChunk) return false;
       step->into = (step->into + 1) % plan.shape.chunks;
       return true;
     }},
    {"a wait does not store",
     [](WrittenPlan& plan, Random& random) {
       Step* step = any_step(plan, random, StepKind::kWait);
       if (step == nullptr || step->into == kNoChunk) return false;
       step->into = kNoChunk;
       return true;
     }},
    {"a reduce lacks a source",
     [](WrittenPlan& plan, Random& random) {
       Step* step = any_step(plan, random, StepKind::kReduce);
       if (step == nullptr) return false;
       step->sources.erase(step->sources.begin() + static_cast<ptrdiff_t>(random() % step->sources.size()));
       return true;
     }},
    {"a reduce counts a source twice",
     [](WrittenPlan& plan, Random& random) {
       Step* step = any_step(plan, random, StepKind::kReduce);
       if (step == nullptr) return false;
       step->sources.push_back(step->sources[random() % step->sources.size()]);
       return true;
     }},
    {"a reduce does not finish, or one too many does",
     [](WrittenPlan& plan, Random& random) {
       Step* step = any_step(plan, random, StepKind::kReduce);
       if (step == nullptr) return false;
       step->finish = !step->finish;
       return true;
     }},
    {"a step has another lag",
     [](WrittenPlan& plan, Random& random) {
       std::vector<Step>& steps = any_steps(plan, random);
       Step& step = steps[random() % steps.size()];
       // One that waits into the output, or sends from it, may come later without harm to anyone but its stream's
       // order.
       if (step.kind != StepKind::kReduce) return false;
       step.lag += 1;
       return true;
     }},
};

TEST_CASE("every mutant of every algorithm is refused") {
  Random random(20261121);
  for (const Algorithm* algorithm : algorithms()) {
    for (int nranks : {2, 3, 4, 5, 8}) {
      WrittenPlan original = test::write_out(*algorithm, nranks);
      REQUIRE_FALSE(refused(original.plan()));
      for (const Mutation& mutation : kMutations) {
        for (int attempt = 0, made = 0; attempt < 40 && made < 4; ++attempt) {
          WrittenPlan mutant = original;
          if (!mutation.apply(mutant, random) || mutant.parts == original.parts) continue;
          ++made;
          INFO(algorithm->name << " of " << nranks << ": " << mutation.name);
          CHECK(refused(mutant.plan()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti
