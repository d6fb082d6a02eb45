// Every algorithm against the validator and the symbolic checker.
#include <bit>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <set>

#include "plan/collective.h"
#include "plan/cursor.h"
#include "plan/resolve.h"
#include "plan/validate.h"
#include "planner/planner.h"
#include "planner/topologies.h"

namespace tutti {
namespace {

// The roots that make a difference: the first rank, the last, and one between.
std::vector<int> roots_of(const Algorithm& algorithm, int nranks) {
  if (!has_root(algorithm.collective)) return {-1};
  std::set<int> roots = {0, nranks / 2, nranks - 1};
  return {roots.begin(), roots.end()};
}

Plan plan_of(const Algorithm& algorithm, int nranks, int root) {
  Request request;
  request.collective = algorithm.collective;
  request.root = root;
  request.count = 1000;
  return Plan(algorithm.shape(test::make_topology(1, nranks), request, {}), algorithm.generate);
}

void require_ok(const Status& status, const Plan& plan) {
  const PlanShape& shape = plan.shape();
  INFO(name_of(shape.collective) << " by " << shape.algorithm << " of " << shape.nranks << " ranks, root "
                                 << shape.root << ": " << status.message());
  REQUIRE(status.ok());
}

// Calls visit(algorithm, plan) for all algorithms on 1 to 16 ranks.
template <typename Visit>
void visit_plans(Visit&& visit) {
  for (const Algorithm* algorithm : algorithms()) {
    for (int nranks = 1; nranks <= 16; ++nranks) {
      for (int root : roots_of(*algorithm, nranks)) visit(*algorithm, plan_of(*algorithm, nranks, root));
    }
  }
}

TEST_CASE("every algorithm is valid for 1 to 16 ranks, any number of slices and at least two slots") {
  visit_plans([](const Algorithm&, const Plan& plan) {
    for (uint64_t slices : {0, 1, 2, 3, 7}) {
      for (int slots : {2, 3, 4}) {
        INFO("slices " << slices << ", slots " << slots);
        require_ok(validate(plan, {slices, slots}), plan);
      }
    }
  });
}

TEST_CASE("trees over rank indices are valid for more ranks than can all be linked to each other") {
  for (Collective collective : {TUTTI_ALL_REDUCE, TUTTI_REDUCE, TUTTI_REDUCE_SCATTER}) {
    for (int nranks : {129, 200}) {
      Plan plan = plan_of(*find_algorithm(collective, "binomial_tree"), nranks, collective == TUTTI_REDUCE ? 77 : -1);
      require_ok(check_symbolically(plan, {.slices = 2, .slots = 2, .use_permissions = true}), plan);
    }
  }
}

TEST_CASE("every algorithm computes all outputs with the permissions that it claims") {
  uint64_t seed = 1;
  visit_plans([&](const Algorithm&, const Plan& plan) {
    for (int slots : {2, 4}) {
      for (InPlace in_place : {InPlace::kNone, InPlace::kAll, InPlace::kSome}) {
        for (bool use_permissions : {false, true}) {
          CheckOptions options{.slices = 1 + seed % 4,
                               .equal_slices = seed % 3 == 0,
                               .slots = slots,
                               .in_place = in_place,
                               .use_permissions = use_permissions,
                               .seed = seed};
          ++seed;
          INFO("in place " << static_cast<int>(in_place) << ", permissions " << use_permissions << ", slots " << slots
                           << ", slices " << options.slices << ", seed " << options.seed);
          require_ok(check_symbolically(plan, options), plan);
        }
      }
    }
  });
}

// Follows the values of one plan with one slice, and writes them as "((0 1) (2 3))".
class Brackets {
 public:
  explicit Brackets(const Plan& plan) : plan_(plan), nranks_(plan.shape().nranks) {
    for (int rank = 0; rank < nranks_; ++rank) {
      parts_.push_back(plan.part(rank, 0));
      facts_.push_back(std::move(resolve(plan.shape(), parts_.back(), rank, 0)).value());
    }
    for (int rank = 0; rank < nranks_; ++rank)
      cursors_.emplace_back(parts_[rank], facts_[rank], [](int) { return 1; });
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < nranks_; ++rank) {
        while (!cursors_[rank].done() && step(rank)) moved = true;
      }
    }
  }

  // What the last finishing step of any rank made of each chunk.
  const std::map<int, std::string>& results() const { return results_; }

 private:
  using Values = std::map<std::pair<Space, int>, std::string>;

  bool step(int rank) {
    Cursor& cursor = cursors_[rank];
    const Step& step = cursor.step();
    int chunk = facts_[rank][cursor.section()].steps[cursor.step_index()].chunk;
    if (step.kind == StepKind::kPut) {
      streams_[{rank, step.peer}].push_back(step.sources.empty() ? "" : value(rank, step.sources[0]));
    } else if (step.kind == StepKind::kWait) {
      auto& stream = streams_[{step.peer, rank}];
      if (stream.empty()) return false;
      values_[rank][step.into == kNoChunk ? std::pair(Space::kArrival, step.peer)
                                          : std::pair(Space::kOutput, step.into)] = stream.front();
      stream.pop_front();
    } else {
      std::vector<std::string> terms;
      for (const Place& source : step.sources) terms.push_back(value(rank, source));
      std::string sum = bracketed(terms);
      for (const Place& to : step.destinations) values_[rank][{to.space, to.index}] = sum;
      if (step.finish) results_[chunk] = sum;
    }
    cursor.advance();
    return true;
  }

  std::string value(int rank, const Place& place) {
    if (place.space == Space::kInput) return std::to_string(rank);
    return values_[rank][{place.space, place.index}];
  }

 public:
  // As the kernels combine: neighbours first.
  static std::string bracketed(std::vector<std::string> terms) {
    while (terms.size() > 1) {
      std::vector<std::string> combined;
      for (size_t i = 0; i < terms.size(); i += 2) {
        combined.push_back(i + 1 < terms.size() ? "(" + terms[i] + " " + terms[i + 1] + ")" : terms[i]);
      }
      terms = std::move(combined);
    }
    return terms[0];
  }

 private:
  const Plan& plan_;
  int nranks_;
  std::vector<RankPlan> parts_;
  std::vector<PartFacts> facts_;
  std::vector<Cursor> cursors_;
  std::vector<Values> values_ = std::vector<Values>(static_cast<size_t>(plan_.shape().nranks));
  std::map<std::pair<int, int>, std::deque<std::string>> streams_;
  std::map<int, std::string> results_;
};

TEST_CASE("algorithms that say so combine by the binary tree over rank indices") {
  visit_plans([](const Algorithm& algorithm, const Plan& plan) {
    int nranks = plan.shape().nranks;
    if (!reduces(algorithm.collective) || plan.shape().channels != 1) return;
    bool is_power = std::has_single_bit(static_cast<unsigned>(nranks));
    if (algorithm.traits.rank_tree == RankTree::kNever && nranks > 2) return;
    if (algorithm.traits.rank_tree == RankTree::kPowersOfTwo && !is_power) return;
    std::vector<std::string> ranks;
    for (int rank = 0; rank < nranks; ++rank) ranks.push_back(std::to_string(rank));
    INFO(name_of(algorithm.collective) << " by " << algorithm.name << " of " << nranks << " to " << plan.shape().root);
    auto results = Brackets(plan).results();
    REQUIRE(static_cast<int>(results.size()) == plan.shape().chunks);
    for (const auto& [chunk, result] : results) {
      INFO("chunk " << chunk);
      if (algorithm.traits.rank_tree != RankTree::kNever) CHECK(result == Brackets::bracketed(ranks));
    }
  });
}

TEST_CASE("groups whose numbers are powers of two combine by that tree too") {
  auto collective = GENERATE(TUTTI_ALL_REDUCE, TUTTI_REDUCE_SCATTER);
  const Algorithm& algorithm = *find_algorithm(collective, "hierarchical");
  using Groups = std::vector<int>;
  for (auto [nranks, groups] : {std::pair(4, Groups{2}), {8, {2}}, {8, {4}}, {16, {4}}, {8, {}}, {8, {2, 4}},
                                {16, {2, 8}}, {16, {2, 4, 8}}}) {
    CAPTURE(nranks, groups);
    Request request{.collective = collective, .count = 1000};
    PlanShape shape = algorithm.shape(test::make_topology(1, nranks), request, {});
    shape.groups = groups;
    std::vector<std::string> ranks;
    for (int rank = 0; rank < nranks; ++rank) ranks.push_back(std::to_string(rank));
    Plan plan(shape, algorithm.generate);
    auto results = Brackets(plan).results();
    REQUIRE(static_cast<int>(results.size()) == shape.chunks);
    for (const auto& [chunk, result] : results) {
      CAPTURE(chunk);
      CHECK(result == Brackets::bracketed(ranks));
    }
  }
}

TEST_CASE("every collective has at least two algorithms, also with counts that only two ranks know") {
  for (int number = TUTTI_ALL_REDUCE; number <= TUTTI_SCATTER_V; ++number) {
    auto collective = static_cast<Collective>(number);
    int serving = 0;
    for (const Algorithm* algorithm : algorithms()) {
      bool counts_are_private = collective >= TUTTI_ALL_TO_ALL_V;
      bool can = algorithm->collective == without_counts(collective) &&
                 !(counts_are_private && algorithm->traits.carries_for_others);
      serving += can ? 1 : 0;
    }
    INFO(name_of(collective));
    CHECK(serving >= 2);
  }
}

TEST_CASE("an algorithm that carries nothing for others touches only chunks of its own buffers") {
  visit_plans([](const Algorithm& algorithm, const Plan& plan) {
    const PlanShape& shape = plan.shape();
    if (algorithm.traits.carries_for_others || chunks_of(shape.collective, shape.nranks) == 0) return;
    for (int rank = 0; rank < shape.nranks; ++rank) {
      PartFacts facts = std::move(resolve(shape, plan.part(rank, 0), rank, 0)).value();
      for (const SectionFacts& section : facts) {
        for (const StepFacts& step : section.steps) {
          if (step.chunk == kNoChunk) continue;
          INFO(name_of(shape.collective) << " by " << shape.algorithm << ", rank " << rank << ", chunk " << step.chunk);
          CHECK((in_input(shape, rank, step.chunk) || in_output(shape, rank, step.chunk)));
        }
      }
    }
  });
}

}  // namespace
}  // namespace tutti
