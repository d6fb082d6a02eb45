#include <catch2/catch.hpp>

#include "plan/examples.h"
#include "plan/validate.h"

namespace tutti {
namespace {

using Catch::Matchers::Contains;

// Two ranks on one channel with one section each.
Plan two_ranks(std::vector<Step> first, std::vector<Step> second, int chunks = 1) {
  PlanShape shape;
  shape.algorithm = "test";
  shape.nranks = 2;
  shape.chunks = chunks;
  shape.slice_bytes = 64;
  return Plan(shape, {RankPlan{{Section{std::move(first)}}}, RankPlan{{Section{std::move(second)}}}});
}

Step put(int peer, std::vector<Place> source, int into = kNoChunk, int lag = 0) {
  return {.kind = StepKind::kPut,
          .peer = peer,
          .into = into,
          .lag = static_cast<uint8_t>(lag),
          .sources = std::move(source)};
}
Step wait(int peer, int into = kNoChunk, int lag = 0) {
  return {.kind = StepKind::kWait, .peer = peer, .into = into, .lag = static_cast<uint8_t>(lag)};
}
Step copy(Place from, std::vector<Place> to, int lag = 0) {
  return {.kind = StepKind::kCopy, .lag = static_cast<uint8_t>(lag), .sources = {from}, .destinations = std::move(to)};
}

void require_refused(const Plan& plan, const std::string& reason, ValidateOptions options = {}) {
  Status status = validate(plan, options);
  INFO("expected: " << reason);
  REQUIRE_FALSE(status.ok());
  REQUIRE_THAT(std::string(status.message()), Contains(reason));
}

TEST_CASE("bare signals and their waits are valid, with data and without") {
  REQUIRE(validate(two_ranks({put(1, {}), wait(1)}, {put(0, {}), wait(0)})).ok());
  REQUIRE(validate(two_ranks({put(1, {input(0)}, 0), put(1, {})}, {wait(0, 0), wait(0)})).ok());
}

TEST_CASE("several puts of one value to one peer need one slot at a time") {
  std::vector<Step> sends = {put(1, {input(0)}, 0), put(1, {input(0)}, 0), put(1, {input(0)}, 0)};
  CHECK(validate(two_ranks(sends, {wait(0, 0), wait(0, 0), wait(0, 0)}), {.slots = 1}).ok());
  sends.insert(sends.begin(), copy(input(0), {output(0)}));
  for (size_t i = 1; i < sends.size(); ++i) sends[i].sources = {output(0)};
  CHECK(validate(two_ranks(sends, {wait(0, 0), wait(0, 0), wait(0, 0)}), {.slots = 1}).ok());
}

TEST_CASE("the error names rank, channel, section and step") {
  require_refused(
      two_ranks({}, {copy(input(0), {output(0)}), put(0, {input(3)})}, 3),
      "rank 1, channel 0, section 0, step 1 (put input[3] -> rank 0): it names a chunk that the plan does not have");
}

TEST_CASE("steps that break the form are refused") {
  require_refused(two_ranks({put(2, {})}, {}), "its peer is no rank of the plan");
  require_refused(two_ranks({put(-1, {})}, {}), "its peer is no rank of the plan");
  require_refused(two_ranks({put(0, {})}, {}), "a rank cannot send to itself");
  require_refused(two_ranks({put(1, {input(0)}, 1)}, {}), "`into` is no chunk of the plan");
  require_refused(two_ranks({put(1, {}, 0)}, {}), "a bare signal cannot go into a chunk");
  require_refused(two_ranks({put(1, {input(0), input(0)})}, {}), "at most one source");
  require_refused(two_ranks({copy(input(0), {})}, {}), "one source and a destination");
  require_refused(two_ranks({copy(input(0), {input(0)})}, {}), "only output and temp can be written");
  require_refused(two_ranks({copy(output(0), {output(0)})}, {}), "reads and writes one place");
  require_refused(two_ranks({copy(input(0), {output(0), output(0)})}, {}), "writes one place twice");
  require_refused(two_ranks({copy(input(0), {temp(-1)})}, {}), "negative");
  require_refused(two_ranks({Step{.kind = StepKind::kReduce}}, {}), "a reduce has a source");
  require_refused(two_ranks({Step{.kind = static_cast<StepKind>(9)}}, {}), "its kind is unknown");
  require_refused(two_ranks({copy(Place{static_cast<Space>(9), 0}, {output(0)})}, {}), "unknown space");
  Step finishing = put(1, {input(0)});
  finishing.finish = true;
  require_refused(two_ranks({finishing}, {wait(0)}), "only copy and reduce can finish");
}

TEST_CASE("temps and arrivals are written before they are read, and only within their lag") {
  require_refused(two_ranks({copy(temp(0), {output(0)})}, {}), "a temp that is not written yet");
  require_refused(two_ranks({copy(arrival(1), {output(0)})}, {}), "an arrival that is not received yet");
  require_refused(two_ranks({copy(input(0), {temp(0)}), copy(temp(0), {output(0)}, 1)}, {}), "of another lag");
  require_refused(two_ranks({copy(input(0), {temp(0)}), copy(input(0), {temp(0)})}, {}), "a second time");
  require_refused(two_ranks({wait(1, 0), copy(arrival(1), {output(0)})}, {put(0, {input(0)}, 0)}), "not received yet");
}

TEST_CASE("all places of a step mean one chunk") {
  require_refused(two_ranks({copy(input(0), {output(1)})}, {}, 2), "mixes different chunks");
  require_refused(two_ranks({copy(input(0), {temp(0)}), copy(temp(0), {output(1)})}, {}, 2), "mixes different chunks");
  require_refused(two_ranks({put(1, {input(0)}, 1)}, {wait(0, 1)}, 2), "mixes different chunks");
  require_refused(two_ranks({put(1, {input(0)})}, {wait(0), put(0, {arrival(0)})}, 2), "nothing tells which chunk");
}

TEST_CASE("buffers hold what the collective says and nothing else") {
  auto of = [](Collective collective, int root, std::vector<Step> first, std::vector<Step> second, int chunks) {
    PlanShape shape = two_ranks({}, {}, chunks).shape();
    shape.collective = collective;
    shape.root = root;
    return Plan(shape, {RankPlan{{Section{std::move(first)}}}, RankPlan{{Section{std::move(second)}}}});
  };
  require_refused(of(TUTTI_BROADCAST, 0, {}, {copy(input(0), {output(0)})}, 1), "rank's input does not hold the chunk");
  require_refused(of(TUTTI_REDUCE, 0, {}, {copy(input(0), {output(0)})}, 1), "rank's output does not hold the chunk");
  require_refused(of(TUTTI_ALL_GATHER, -1, {copy(input(1), {output(1)})}, {}, 2), "input does not hold the chunk");
  require_refused(of(TUTTI_REDUCE_SCATTER, -1, {put(1, {input(0)}, 0)}, {wait(0, 0)}, 2),
                  "the receiver's output does not hold the chunk");
  require_refused(of(TUTTI_SCATTER, 0, {}, {wait(0, 0)}, 2), "the receiver's output does not hold the chunk");
  require_refused(of(TUTTI_ALL_TO_ALL, -1, {copy(input(2), {temp(0)})}, {}, 4), "input does not hold the chunk");
  require_refused(of(TUTTI_ALL_GATHER, -1, {}, {}, 3), "all_gather of 2 ranks has 2");
  require_refused(of(TUTTI_ALL_TO_ALL, -1, {}, {}, 2), "all_to_all of 2 ranks has 4");
  require_refused(of(TUTTI_BROADCAST, -1, {}, {}, 1), "root is -1");
}

TEST_CASE("only a wait for an arrival names a chunk") {
  Step named = wait(0);
  named.chunk = 1;
  std::vector<Step> forwards = {named, put(0, {arrival(0)}, 1)};
  REQUIRE(validate(two_ranks({put(1, {input(1)}), wait(1, 1)}, forwards, 2)).ok());
  require_refused(two_ranks({put(1, {input(0)}), wait(1, 1)}, forwards, 2), "mean different chunks");
  named.chunk = 2;
  require_refused(two_ranks({}, {named}, 2), "its chunk is none of the plan's");
  named.chunk = 0;
  named.into = 1;
  require_refused(two_ranks({}, {named}, 2), "only a wait for an arrival names a chunk");
}

TEST_CASE("a plan that needs all chunks to have as many slices is refused") {
  // In the order of equal slices the messages of chunk 1 follow those of chunk 0 on both ends: here one round later,
  // there in the next section.
  std::vector<Step> first = {put(1, {input(0)}, 0), put(1, {input(1)}, 1, 1)};
  PlanShape shape = two_ranks({}, {}, 2).shape();
  Plan plan(shape, {RankPlan{{Section{first}}}, RankPlan{{Section{{wait(0, 0)}}, Section{{wait(0, 1)}}}}});
  CHECK(validate(plan, {.slices = 1}).ok());
  require_refused(plan, "does not fit");
}

TEST_CASE("messages that do not fit their waits are refused, with both places") {
  require_refused(two_ranks({put(1, {input(0)}, 0)}, {wait(0), copy(arrival(0), {output(0)})}),
                  "different chunks to store into");
  require_refused(two_ranks({put(1, {input(0)})}, {wait(0)}), "its payload is never used");
  require_refused(two_ranks({put(1, {})}, {wait(0), copy(arrival(0), {output(0)})}), "has no payload");
  require_refused(two_ranks({put(1, {input(0)})}, {wait(0), copy(arrival(0), {output(1)})}, 2),
                  "mean different chunks");
  require_refused(two_ranks({put(1, {input(0)}, 0), put(1, {input(0)}, 0, 1)}, {wait(0, 0), wait(0, 0)}),
                  "different slices");
  require_refused(two_ranks({put(1, {input(0)}, 0)}, {wait(0, 0), wait(0, 0)}), "blocks for ever", {1, 4});
  require_refused(two_ranks({put(1, {input(0)}, 0), put(1, {input(0)}, 0)}, {wait(0, 0)}),
                  "does not fit the message of rank 0");
  require_refused(two_ranks({put(1, {input(0)}, 0)}, {}), "rank 1 never waits for this message", {1, 4});
  // Of several that of the first sender is named.
  require_refused(two_ranks({put(1, {input(0)}, 0)}, {put(0, {input(0)}, 0)}), "rank 1 never waits", {1, 4});
}

TEST_CASE("a deadlock is found and names who waits") {
  require_refused(two_ranks({wait(1), put(1, {})}, {wait(0), put(0, {})}),
                  "rank 0, channel 0, section 0, step 0 (wait <- rank 1)");
  // Three messages ahead of the first wait need three slots.
  auto side = [](int peer) {
    return std::vector<Step>{put(peer, {}), put(peer, {}), put(peer, {}), wait(peer), wait(peer), wait(peer)};
  };
  REQUIRE(validate(two_ranks(side(1), side(0)), {1, 3}).ok());
  require_refused(two_ranks(side(1), side(0)), "blocks for ever with 2 slots", {1, 2});
}

TEST_CASE("an arrival holds its slot until the steps that run as one with its last use are through") {
  // Rank 1 keeps the first message until it has sent the reduced value, for which rank 0 must have released the signal.
  Step reduce{.kind = StepKind::kReduce, .sources = {input(0), arrival(0)}, .destinations = {temp(0)}};
  std::vector<Step> first = {put(1, {input(0)}), put(1, {}), wait(1), wait(1, 0)};
  std::vector<Step> second = {put(0, {}), wait(0), reduce, put(0, {temp(0)}, 0), wait(0)};
  REQUIRE(validate(two_ranks(first, second), {1, 2}).ok());
  require_refused(two_ranks(first, second), "blocks for ever with 1 slots", {1, 1});
}

TEST_CASE("shapes out of range are refused before anything runs") {
  Plan good = two_ranks({}, {});
  auto with = [&](auto change) {
    PlanShape shape = good.shape();
    change(shape);
    return Plan(shape, std::vector<RankPlan>(2));
  };
  REQUIRE(validate(good).ok());
  require_refused(with([](PlanShape& s) { s.nranks = 0; }), "nranks is 0");
  require_refused(with([](PlanShape& s) { s.channels = kMaxPlanChannels + 1; }), "channels is 257");
  require_refused(with([](PlanShape& s) { s.chunks = 0; }), "chunks is 0");
  require_refused(with([](PlanShape& s) { s.root = 2; }), "root is 2");
  require_refused(with([](PlanShape& s) { s.slice_bytes = 100; }), "multiple of 64");
}

}  // namespace
}  // namespace tutti
