// Rings and chains along ranks that are near each other.
#include <catch2/catch.hpp>
#include <set>

#include "plan/text.h"
#include "plan/validate.h"
#include "planner/choices.h"
#include "planner/topologies.h"

namespace tutti {
namespace {

using Catch::Matchers::Contains;

bool goes_along_neighbours(const Algorithm& algorithm) { return algorithm.name == "ring" || algorithm.name == "chain"; }

// Rank r is on host r modulo `hosts`, as launchers that deal ranks out one by one place them.
Topology dealt_out(int hosts, int ranks_per_host) {
  Topology topology = test::make_topology(hosts, ranks_per_host);
  for (TopologyHost& host : topology.hosts) host.ranks.clear();
  for (int rank = 0; rank < topology.nranks(); ++rank) {
    TopologyRank& its = topology.ranks[rank];
    TopologyHost& host = topology.hosts[rank % hosts];
    its.host = rank % hosts;
    its.local_rank = rank / hosts;
    its.pid = 1000 + its.local_rank;
    its.identity = host.inventory.identity;
    host.ranks.push_back(rank);
  }
  return topology;
}

Request request_of(Collective collective, int root) {
  return {.collective = collective, .root = has_root(collective) ? root : -1, .count = 1 << 20};
}

}  // namespace

TEST_CASE("a ring visits all ranks of a host before those of the next") {
  Topology topology = dealt_out(2, 4);
  for (const Algorithm* algorithm : algorithms()) {
    if (!goes_along_neighbours(*algorithm)) continue;
    CAPTURE(name_of(algorithm->collective));
    Request request = request_of(algorithm->collective, 3);
    PlanShape shape = algorithm->shape(topology, request, {});
    CHECK(shape.order == std::vector{0, 2, 4, 6, 1, 3, 5, 7});
    int between_hosts = 0;
    for (int rank = 0; rank < 8; ++rank) {
      std::set<int> receivers;
      RankPlan part = algorithm->generate(shape, rank, 0);
      for (const Step& step : part.sections[0].steps) {
        if (step.kind == StepKind::kPut) receivers.insert(step.peer);
      }
      for (int peer : receivers) between_hosts += topology.ranks[peer].host != topology.ranks[rank].host ? 1 : 0;
    }
    // A chain from rank 3 goes to 5 and 7 of its own host, through the other host, and back to 1.
    CHECK(between_hosts == 2);
    PlanShape by_number = shape;
    by_number.order.clear();
    CHECK(algorithm->predict({topology, request, {}}, shape).ns <
          algorithm->predict({topology, request, {}}, by_number).ns / 2);
    CHECK(algorithm->shape(test::make_topology(2, 4), request, {}).order.empty());
  }
}

TEST_CASE("rings and chains are proven for ranks in any order") {
  for (const Algorithm* algorithm : algorithms()) {
    if (!goes_along_neighbours(*algorithm)) continue;
    for (const std::vector<int>& order : {std::vector{1, 0}, {0, 2, 1}, {4, 2, 0, 3, 1}, {7, 0, 6, 1, 5, 2, 4, 3}}) {
      int nranks = static_cast<int>(order.size());
      for (int root : {0, nranks - 1}) {
        PlanShape shape =
            algorithm->shape(test::make_topology(1, nranks), request_of(algorithm->collective, root), {});
        shape.order = order;
        shape.channels = 2;  // one each way round
        Status proven = prove(Plan(shape, algorithm->generate), 2);
        INFO(name_of(shape.collective) << " of " << nranks << ", root " << root << ": " << proven.message());
        REQUIRE(proven.ok());
      }
    }
  }
}

TEST_CASE("a plan whose ranks have an order reads back as what was written") {
  Topology topology = dealt_out(2, 2);
  Plan plan = must_choose(topology, bytes(1 << 20), {.algorithm = "ring"}).plan;
  std::string text = to_json(plan, true);
  CHECK_THAT(text, Contains("\"order\": [0, 2, 1, 3], "));
  Result<Plan> read = parse_plan(text);
  REQUIRE(read.ok());
  CHECK(read->shape() == plan.shape());
  CHECK(plan.digest() != must_choose(test::make_topology(2, 2), bytes(1 << 20), {.algorithm = "ring"}).plan.digest());
  for (auto [wrong, why] : {std::pair("[0, 2, 1]", "the plan's order has 3 of 4 ranks"),
                            {"[0, 2, 1, 2]", "the plan's order is 2"},
                            {"[0, 2, 1, 4]", "must be a number from 0 to 3"}}) {
    CAPTURE(wrong);
    std::string changed = text;
    changed.replace(changed.find("[0, 2, 1, 3]"), 12, wrong);
    CHECK_THAT(std::string(parse_plan(changed).status().message()), Contains(why));
  }
}

}  // namespace tutti
