// Plans whose receivers first tell their senders where outputs are.
#include <catch2/catch.hpp>

#include <algorithm>

#include "plan/text.h"
#include "plan/validate.h"
#include "planner/planner.h"
#include "planner/topologies.h"

namespace tutti {
namespace {

constexpr Collective kMoving[] = {TUTTI_BROADCAST, TUTTI_ALL_GATHER, TUTTI_GATHER, TUTTI_SCATTER, TUTTI_ALL_TO_ALL};

Request moving(Collective collective, uint64_t block_bytes, int nranks) {
  uint64_t blocks = collective == TUTTI_BROADCAST ? 1 : static_cast<uint64_t>(nranks);
  return {.collective = collective, .root = has_root(collective) ? 0 : -1, .count = blocks * block_bytes / 4};
}

bool meets(const Topology& topology, const Request& request) {
  auto choice = choose(topology, request, {});
  REQUIRE(choice.ok());
  return choice->plan.shape().rendezvous;
}

}  // namespace

TEST_CASE("collectives that move large blocks begin with a rendezvous where RDMA joins all ranks") {
  for (Collective collective : kMoving) {
    INFO(name_of(collective));
    for (int nranks : {2, 3, 8}) {
      CHECK(meets(test::with_rdma(nranks), moving(collective, 1 << 20, nranks)));
      CHECK_FALSE(meets(test::with_rdma(nranks), moving(collective, 64 << 10, nranks)));
      CHECK_FALSE(meets(test::make_topology(nranks, 1), moving(collective, 1 << 20, nranks)));
    }
    CHECK_FALSE(meets(test::with_rdma(2, 2), moving(collective, 1 << 20, 4)));  // some share memory
    Topology forced = test::with_rdma(2, 2);
    forced.forced_transport = "verbs";
    CHECK(meets(forced, moving(collective, 1 << 20, 4)));
    forced.forced_transport = "tcp";
    CHECK_FALSE(meets(forced, moving(collective, 1 << 20, 4)));
    Topology one_without = test::with_rdma(4);
    one_without.ranks[2].rdma_lanes = 0;
    CHECK_FALSE(meets(one_without, moving(collective, 1 << 20, 4)));
  }
  CHECK_FALSE(meets(test::with_rdma(4), {.collective = TUTTI_ALL_REDUCE, .count = 16 << 20}));
  CHECK_FALSE(meets(test::with_rdma(4), {.collective = TUTTI_ALL_TO_ALL_V, .count = 16 << 20}));
}

TEST_CASE("every algorithm that moves is proven with a rendezvous, too") {
  for (const Algorithm* algorithm : algorithms()) {
    if (std::find(std::begin(kMoving), std::end(kMoving), algorithm->collective) == std::end(kMoving)) continue;
    for (int nranks : {1, 2, 3, 5, 8}) {
      Request request = moving(algorithm->collective, 1 << 20, nranks);
      PlanShape shape = algorithm->shape(test::with_rdma(nranks), request, {});
      shape.rendezvous = true;
      Plan plan(shape, algorithm->generate);
      for (int slots : {2, 4}) {
        Status proven = prove(plan, slots);
        INFO(name_of(shape.collective) << " by " << shape.algorithm << " of " << nranks << ": " << proven.message());
        REQUIRE(proven.ok());
      }
      PlanShape without = algorithm->shape(test::with_rdma(nranks), request, {});
      CHECK(plan.digest() != Plan(without, algorithm->generate).digest());
    }
  }
}

TEST_CASE("a rendezvous is a signal from each receiver to each of its senders, before all else") {
  Topology topology = test::with_rdma(3);
  Tuning tuning;
  tuning.algorithm = "chain";
  auto choice = choose(topology, moving(TUTTI_BROADCAST, 1 << 20, 3), tuning);
  REQUIRE(choice.ok());
  auto first = [&](int rank) { return choice->plan.part(rank, 0).sections.front().steps; };
  Step to_0{.kind = StepKind::kPut, .peer = 0}, to_1{.kind = StepKind::kPut, .peer = 1};
  Step of_1{.kind = StepKind::kWait, .peer = 1}, of_2{.kind = StepKind::kWait, .peer = 2};
  CHECK(first(0) == std::vector<Step>{of_1});
  CHECK(first(1) == std::vector<Step>{to_0, of_2});
  CHECK(first(2) == std::vector<Step>{to_1});
}

TEST_CASE("a plan with a rendezvous reads back as what was written") {
  auto choice = choose(test::with_rdma(3), moving(TUTTI_ALL_GATHER, 1 << 20, 3), {});
  REQUIRE(choice.ok());
  auto read = parse_plan(to_json(choice->plan, true));
  REQUIRE(read.ok());
  CHECK(read->shape() == choice->plan.shape());
  for (int rank = 0; rank < 3; ++rank) CHECK(read->part(rank, 0) == choice->plan.part(rank, 0));
}

}  // namespace tutti
