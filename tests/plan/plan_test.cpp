#include <catch2/catch.hpp>

#include "plan/cursor.h"
#include "plan/examples.h"
#include "plan/resolve.h"

namespace tutti {
namespace {

TEST_CASE("a plan that is written out has the parts of the generated one") {
  test::WrittenPlan written = test::write_out("ring", 4);
  Plan generated(written.shape, find_algorithm(TUTTI_ALL_REDUCE, "ring")->generate);
  for (int rank = 0; rank < 4; ++rank) REQUIRE(written.plan().part(rank, 0) == generated.part(rank, 0));
}

TEST_CASE("the digest tells plans apart by every field of the shape and by every step") {
  test::WrittenPlan written = test::write_out("ring", 4);
  uint64_t digest = written.plan().digest();
  REQUIRE(written.plan().digest() == digest);
  std::vector<std::function<void(PlanShape&)>> changes = {
      [](PlanShape& s) { s.algorithm += "x"; }, [](PlanShape& s) { s.nranks = 5; },
      [](PlanShape& s) { s.root = 0; },         [](PlanShape& s) { s.channels = 2; },
      [](PlanShape& s) { s.chunks = 5; },       [](PlanShape& s) { s.slice_bytes *= 2; },
      [](PlanShape& s) { s.by_reference = Permission::kNever; },
      [](PlanShape& s) { s.deliver_directly = Permission::kUnlessInPlace; },
      [](PlanShape& s) { s.rendezvous = true; }, [](PlanShape& s) { s.by_chunk = true; },
      [](PlanShape& s) { s.groups = {2}; },      [](PlanShape& s) { s.order = {0, 2, 1, 3}; },
      [](PlanShape& s) { s.collective = TUTTI_REDUCE; }};
  for (auto& change : changes) {
    test::WrittenPlan other = written;
    change(other.shape);
    REQUIRE(other.plan().digest() != digest);
  }
  test::WrittenPlan other = written;
  other.steps(2)[3].lag = 1;
  REQUIRE(other.plan().digest() != digest);
}

TEST_CASE("the digest is the same on every machine") {
  PlanShape shape;
  shape.algorithm = "ring";
  shape.nranks = 3;
  shape.slice_bytes = 64;
  REQUIRE(Plan(shape, find_algorithm(TUTTI_ALL_REDUCE, "ring")->generate).digest() == 0x40680552e6e8898c);
}

using Walk = std::vector<std::tuple<size_t, size_t, uint64_t>>;  // section, step, slice

Walk walk(const std::vector<Section>& sections, const SliceCounts& slices, int chunks = 1) {
  PlanShape shape{.algorithm = "test", .nranks = 2, .chunks = chunks, .slice_bytes = 64};
  RankPlan part{sections};
  PartFacts facts = resolve(shape, part, 0, 0).value();
  Walk seen;
  for (Cursor cursor(part, facts, slices); !cursor.done(); cursor.advance()) {
    seen.emplace_back(cursor.section(), cursor.step_index(), cursor.slice());
  }
  return seen;
}

Step copy_chunk(int chunk, uint8_t lag) {
  return {.kind = StepKind::kCopy, .lag = lag, .sources = {input(chunk)}, .destinations = {output(chunk)}};
}

TEST_CASE("a section's rounds run its steps for the slices that their lags say, and bare signals once") {
  std::vector<Section> sections = {{{Step{.kind = StepKind::kPut, .peer = 1}}},
                                   {{copy_chunk(0, 2), copy_chunk(0, 0)}}};
  Walk expected = {{0, 0, 0}, {1, 1, 0}, {1, 1, 1}, {1, 0, 0}, {1, 1, 2}, {1, 0, 1}, {1, 0, 2}};
  REQUIRE(walk(sections, [](int) { return 3; }) == expected);
}

TEST_CASE("a step runs for the slices of its own chunk") {
  std::vector<Section> sections = {{{copy_chunk(0, 0), copy_chunk(1, 1)}}};
  Walk expected = {{0, 0, 0}, {0, 1, 0}, {0, 1, 1}, {0, 1, 2}};
  REQUIRE(walk(sections, [](int chunk) { return chunk == 0 ? 1 : 3; }, 2) == expected);
}

TEST_CASE("empty parts and sections have no steps") {
  REQUIRE(walk({}, [](int) { return 3; }).empty());
  REQUIRE(walk({Section{}, Section{}}, [](int) { return 3; }).empty());
}

TEST_CASE("resolving tells chunks, releases and groups") {
  test::WrittenPlan written = test::write_out("ring", 3);
  PartFacts facts = resolve(written.shape, written.parts[0], 0, 0).value();
  const std::vector<Step>& steps = written.steps(0);
  // put input[2]; wait; reduce temp[0] = arrival + input[1]; put temp[0]; ...
  REQUIRE((steps[1].kind == StepKind::kWait));
  REQUIRE(facts[0].steps[1].chunk == 1);
  REQUIRE(facts[0].steps[1].payload);
  REQUIRE(facts[0].steps[1].last_use == 2);
  REQUIRE(facts[0].steps[3].chunk == 1);
  REQUIRE(facts[0].group_end[2] == 4);
  REQUIRE(facts[0].group_end[3] == 0);
  REQUIRE(facts[0].released[2].empty());
  REQUIRE(facts[0].released[3] == std::vector<int>{2});
}

}  // namespace
}  // namespace tutti
