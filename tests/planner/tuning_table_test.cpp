// What was measured: its file, and what follows from it.
#include <catch2/catch.hpp>

#include "planner/planner.h"
#include "planner/topologies.h"

namespace tutti {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

std::vector<TunedCollective> measured() {
  return {{TUTTI_ALL_REDUCE, {{64, "recursive_doubling"}, {4096, "default"}, {1 << 20, "ring"}}},
          {TUTTI_ALL_GATHER, {{1 << 20, "ring"}}}};
}

TuningTable table() { return {tuned_ranks_of(test::make_topology(1, 4)), measured()}; }

std::string refusal(std::string text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  REQUIRE(at != text.npos);
  auto parsed = parse_tuning(text.replace(at, from.size(), to));
  REQUIRE_FALSE(parsed.ok());
  return std::string(parsed.status().message());
}

Choice must_choose(const Topology& topology, Collective collective, uint64_t size_bytes, const Tuning& tuning,
                   ReduceOp op = TUTTI_SUM) {
  Request request;
  request.collective = collective;
  if (has_root(collective)) request.root = 0;
  request.op = op;
  request.count = size_bytes / 4;
  Result<Choice> choice = choose(topology, request, tuning);
  REQUIRE(choice.ok());
  return std::move(choice).value();
}

std::string chosen(const Topology& topology, Collective collective, uint64_t size_bytes, const Tuning& tuning,
                   ReduceOp op = TUTTI_SUM) {
  return must_choose(topology, collective, size_bytes, tuning, op).plan.shape().algorithm;
}

Tuning with_measured() {
  Tuning tuning;
  tuning.measured = measured();
  return tuning;
}

}  // namespace

TEST_CASE("a tuning file reads back as what was written") {
  auto parsed = parse_tuning(to_json(table()));
  REQUIRE(parsed.status().message() == "");
  CHECK(*parsed == table());
}

TEST_CASE("a tuning file that is wrong is refused with line, place and reason") {
  std::string good = to_json(table());
  CHECK_THAT(refusal(good, "{", "("), StartsWith("line 1: "));
  CHECK_THAT(refusal(good, "tutti.tuning", "tutti.plan"),
             Contains("line 2: format must have \"format\": \"tutti.tuning\""));
  CHECK_THAT(refusal(good, "\"version\": 1", "\"version\": 2"), Contains("line 3: version must have \"version\": 1"));
  CHECK_THAT(refusal(good, "\"all_gather\"", "\"all_gahter\""),
             Contains("collectives[1].collective must be a collective without counts, but is \"all_gahter\""));
  CHECK_THAT(refusal(good, "\"all_gather\"", "\"all_gather_v\""), Contains("without counts"));
  CHECK_THAT(refusal(good, "\"all_gather\"", "\"all_reduce\""), Contains("collectives must have all_reduce once only"));
  CHECK_THAT(refusal(good, "\"recursive_doubling\"", "\"bruck\""),
             Contains("collectives[0].algorithms has \"bruck\", which is no algorithm of all_reduce; there are "
                      "direct_two_shot, ") &&
                 Contains(", ring and default"));
  CHECK_THAT(refusal(good, "4096", "64"), Contains("collectives[0].algorithms must ascend in up_to_bytes"));
  CHECK_THAT(refusal(good, "\"transport\"", "\"transprot\""), Contains("transprot"));
}

TEST_CASE("a tuning is for ranks, hosts, transports and machines, whatever the hosts are called") {
  Topology topology = test::make_topology(1, 4);
  TunedRanks ranks = tuned_ranks_of(topology);
  CHECK(ranks.nranks == 4);
  CHECK(ranks.hosts == 1);
  CHECK(ranks.transport == "shm");
  CHECK(to_text(ranks) == "4 ranks on 1 host over shm (unknown with 64 CPUs)");
  topology.hosts[0].inventory.hostname = "another";
  CHECK(tuned_ranks_of(topology) == ranks);
  topology.forced_transport = "tcp";
  CHECK(tuned_ranks_of(topology).transport == "tcp");
  CHECK(tuned_ranks_of(test::make_topology(2, 2)).transport == "shm+tcp");
  CHECK(tuned_ranks_of(test::make_topology(2, 2)).machines.size() == 1);
  CHECK(tuned_ranks_of(test::make_topology(1, 4, 8)) != ranks);
}

TEST_CASE("what was measured fastest is chosen up to its border, and beyond the last one the prediction") {
  Topology topology = test::make_topology(1, 4);
  Tuning tuning = with_measured();
  CHECK(chosen(topology, TUTTI_ALL_REDUCE, 8, tuning) == "recursive_doubling");
  CHECK(chosen(topology, TUTTI_ALL_REDUCE, 64, tuning) == "recursive_doubling");
  CHECK(chosen(topology, TUTTI_ALL_REDUCE, 4100, tuning) == "ring");
  CHECK(chosen(topology, TUTTI_ALL_REDUCE, 1 << 20, tuning) == "ring");
  for (uint64_t size_bytes : {68, 4096, (1 << 20) + 4}) {
    CHECK(chosen(topology, TUTTI_ALL_REDUCE, size_bytes, tuning) ==
          chosen(topology, TUTTI_ALL_REDUCE, size_bytes, {}));
  }
  CHECK(chosen(topology, TUTTI_ALL_GATHER_V, 64, tuning) == "ring");
  CHECK(chosen(topology, TUTTI_BROADCAST, 64, tuning) == chosen(topology, TUTTI_BROADCAST, 64, {}));
}

TEST_CASE("the reason says that it was measured, and what the prediction is") {
  Topology topology = test::make_topology(1, 4);
  Tuning tuning = with_measured();
  Choice choice = must_choose(topology, TUTTI_ALL_REDUCE, 1 << 20, tuning);
  CHECK_THAT(choice.reason, StartsWith("ring (") &&
                                Contains("was measured fastest by `tutti bench --tune`; predicted fastest is direct"));
}

TEST_CASE("a wish, a deterministic order and functions that do not commute win over what was measured") {
  Topology topology = test::make_topology(1, 4);
  Tuning tuning = with_measured();
  CHECK(chosen(topology, TUTTI_ALL_REDUCE, 1 << 20, tuning, kOrderedFunction) != "ring");
  tuning.deterministic = true;
  CHECK(chosen(topology, TUTTI_ALL_REDUCE, 1 << 20, tuning) != "ring");
  CHECK(chosen(topology, TUTTI_ALL_REDUCE, 64, tuning) == "recursive_doubling");  // 4 ranks: it is the same tree
  tuning.deterministic = false;
  tuning.algorithm = "binomial_tree";
  CHECK(chosen(topology, TUTTI_ALL_REDUCE, 1 << 20, tuning) == "binomial_tree");
}

}  // namespace tutti
