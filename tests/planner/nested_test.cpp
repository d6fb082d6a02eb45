// Plans for groups within groups: ranks of a GPU, GPUs of a host, hosts.
#include <catch2/catch.hpp>
#include <set>

#include "plan/text.h"
#include "plan/validate.h"
#include "planner/choices.h"
#include "planner/explain.h"
#include "planner/planner.h"
#include "planner/topologies.h"
#include "tests/topology/nccl_samples.h"

namespace tutti {
namespace {

using Catch::Matchers::Contains;
using Groups = std::vector<int>;

constexpr uint64_t kLarge = 256 << 20;
constexpr double kNvLinks = 18 * 25e9 * 16 / 17, kNic = 47e9, kMemory = 2e12;
constexpr int kHosts = 4, kGpus = 8, kRanks = 4;

Topology cluster() {
  return placed(samples::nccl_host("eight-gpus-nvswitch"),
                {.nranks = kHosts * kGpus * kRanks, .hosts = kHosts, .on_gpus = true});
}

Request request_of(Collective collective, int root, uint64_t size_bytes) {
  return {.collective = collective, .root = has_root(collective) ? root : -1, .count = size_bytes / 4};
}

Plan plan_with(Collective collective, int nranks, const Groups& groups, int root, bool rendezvous = false) {
  const Algorithm& algorithm = *find_algorithm(collective, "hierarchical");
  PlanShape shape = algorithm.shape(test::make_topology(1, nranks), request_of(collective, root, 4000), {});
  shape.groups = groups;
  if (!reduces(collective) || has_root(collective)) shape.rendezvous = rendezvous;
  if (has_root(collective)) shape.chunks = groups.empty() ? 1 : groups.back();
  return Plan(shape, algorithm.generate);
}

}  // namespace

TEST_CASE("hierarchical plans are proven for all groups, also within others") {
  auto collective =
      GENERATE(TUTTI_ALL_REDUCE, TUTTI_REDUCE, TUTTI_BROADCAST, TUTTI_ALL_GATHER, TUTTI_REDUCE_SCATTER);
  std::vector<std::pair<int, Groups>> cases = {{8, {2, 4}},  {12, {2, 4}}, {12, {3, 6}},    {12, {2, 6}},
                                               {18, {3, 6}}, {27, {3, 9}}, {16, {2, 4, 8}}, {24, {2, 6, 12}}};
  for (int count = 2; count <= 5; ++count) {
    cases.push_back({count, {}});
    for (int size = 2; size <= 4; ++size) cases.push_back({count * size, {size}});
  }
  for (const auto& [nranks, groups] : cases) {
    std::set<int> roots = {-1};
    int size = groups.empty() ? 1 : groups.back();
    if (has_root(collective)) roots = {0, size - 1, size, nranks / 2, nranks - 1};
    for (int root : roots) {
      for (bool rendezvous : {false, true}) {
        if (rendezvous && reduces(collective)) continue;
        for (int slots : {2, 4}) {
          CAPTURE(name_of(collective), nranks, groups, root, slots, rendezvous);
          Status status = prove(plan_with(collective, nranks, groups, root, rendezvous), slots);
          INFO(status.message());
          REQUIRE(status.ok());
        }
      }
    }
  }
}

TEST_CASE("a rank talks to its peers at each level and to no others") {
  // Rank 13 of 24 in GPUs of 2 and hosts of 6: its GPU has 12 and 13, its host 12 to 17.
  RankPlan part = plan_with(TUTTI_ALL_REDUCE, 24, {2, 6}, -1).part(13, 0);
  std::set<int> peers;
  for (const Step& step : part.sections[0].steps) {
    if (step.kind == StepKind::kPut) peers.insert(step.peer);
  }
  CHECK(peers == std::set<int>{12, 15, 17, 1, 7, 19});
}

TEST_CASE("a plan with groups within groups reads back as what was written") {
  Plan plan = plan_with(TUTTI_ALL_REDUCE, 12, {2, 6}, -1);
  std::string text = to_json(plan, true);
  CHECK_THAT(text, Contains("\"groups\": [2, 6], "));
  Result<Plan> read = parse_plan(text);
  REQUIRE(read.ok());
  CHECK(read->shape() == plan.shape());
  for (int rank = 0; rank < 12; ++rank) CHECK(read->part(rank, 0) == plan.part(rank, 0));
  CHECK(plan.digest() != plan_with(TUTTI_ALL_REDUCE, 12, {2, 4}, -1).digest());
  CHECK(plan.digest() != plan_with(TUTTI_ALL_REDUCE, 12, {6}, -1).digest());
  for (auto [wrong, why] : {std::pair("[6, 2]", "the plan's groups is 2"), {"[2, 5]", "the plan's groups is 5"},
                            {"[2, 12]", "the plan's groups is 12"}, {"[1]", "the plan's groups is 1"},
                            {"[0]", "must be a number from 1"}, {"[\"2\"]", "must have a whole number only"},
                            {"2", "must be a list"}}) {
    CAPTURE(wrong);
    std::string changed = text;
    changed.replace(changed.find("[2, 6]"), 6, wrong);
    CHECK_THAT(std::string(parse_plan(changed).status().message()), Contains(why));
  }
}

TEST_CASE("several ranks on each GPU of several hosts exchange within the GPU, then the host, then between hosts") {
  Topology topology = cluster();
  Request request = request_of(TUTTI_ALL_REDUCE, -1, kLarge);
  Choice choice = must_choose(topology, request);
  CHECK(choice.plan.shape().algorithm == "hierarchical");
  CHECK(choice.plan.shape().groups == Groups{kRanks, kRanks * kGpus});
  CHECK_THAT(to_text(topology, request, choice, {}),
             Contains("  groups     4 ranks on each GPU, 8 GPUs on each host, 4 hosts\n"));
  // By hand, of each GPU: its ranks' vectors, a quarter each, to seven GPUs and back.
  double nvlink_s = 2.0 * 7 / 8 * kLarge / kNvLinks;
  CHECK(static_cast<double>(choice.predicted_ns) > nvlink_s * 1e9);
  CHECK(static_cast<double>(choice.predicted_ns) < nvlink_s * 1e9 * 1.5);
  // Without the level of GPUs each rank's vector goes to the 28 ranks of other GPUs.
  const Algorithm& algorithm = *find_algorithm(TUTTI_ALL_REDUCE, "hierarchical");
  PlanShape flat = choice.plan.shape();
  flat.groups = {kRanks * kGpus};
  CHECK(algorithm.predict({topology, request, {}}, flat).ns > 2 * choice.predicted_ns);
}

TEST_CASE("hosts in fabrics exchange within these first where what leads out of them is narrow") {
  Topology topology = cluster();
  for (int host = 0; host < kHosts; ++host) topology.hosts[host].inventory.fabric = host < 2 ? "a" : "b";
  Request request = request_of(TUTTI_ALL_REDUCE, -1, kLarge);
  Choice assumed = must_choose(topology, request);
  CHECK(assumed.plan.shape().groups == Groups{kRanks, kRanks * kGpus});  // half of all devices is not the bottleneck
  CHECK_THAT(to_text(topology, request, assumed, {}),
             Contains("  assumed    half of what the hosts of a fabric can send leaves it"));
  constexpr double kOut = 40e9;
  topology.hosts[2].inventory.fabric_bytes_per_s = {static_cast<uint64_t>(kOut), Origin::kUser};
  CHECK_THAT(to_text(topology, request, assumed, {}), Contains("half of what"));  // of the first fabric
  topology.hosts[1].inventory.fabric_bytes_per_s = topology.hosts[2].inventory.fabric_bytes_per_s;
  Choice choice = must_choose(topology, request);
  // With so narrow a way the level of hosts is not worth its hops.
  CHECK(choice.plan.shape().groups == Groups{kRanks, kRanks * kGpus * 2});
  std::string text = to_text(topology, request, choice, {});
  CHECK_THAT(text, Contains("  groups     4 ranks on each GPU, 16 GPUs on each fabric, 2 fabrics\n"));
  CHECK_THAT(text, Contains("out of fabric a") && !Contains("half of what"));
  // By hand: the two hosts of a fabric together send half of the vector, and get it back. Without that level each of
  // them does.
  auto about = [](double seconds) { return Catch::Matchers::WithinRel(seconds * 1e9, 0.05); };
  CHECK_THAT(static_cast<double>(choice.predicted_ns), about(2.0 / 2 * kLarge / kOut));
  const Algorithm& algorithm = *find_algorithm(TUTTI_ALL_REDUCE, "hierarchical");
  CHECK_THAT(static_cast<double>(algorithm.predict({topology, request, {}}, assumed.plan.shape()).ns),
             about(2.0 * kLarge / kOut));
}

TEST_CASE("groups by which a rank would hold too many links are not taken, however quick they are") {
  Topology topology = placed(samples::nccl_host("eight-gpus-nvswitch"),
                             {.nranks = kHosts * kGpus * 32, .hosts = kHosts, .on_gpus = true});
  for (Collective collective : {TUTTI_ALL_REDUCE, TUTTI_BROADCAST, TUTTI_REDUCE}) {
    CAPTURE(name_of(collective));
    const Algorithm& algorithm = *find_algorithm(collective, "hierarchical");
    Request request = request_of(collective, 0, kLarge);
    CHECK(algorithm.admit(topology, request) == "");
    PlanShape shape = algorithm.shape(topology, request, {});
    std::set<int> peers;
    RankPlan part = algorithm.generate(shape, 0, 0);
    for (const Step& step : part.sections[0].steps) peers.insert(step.peer);
    peers.erase(-1);
    CHECK(peers.size() > 1);
    CHECK(peers.size() <= 127);
  }
}

TEST_CASE("other collectives take the levels that bring least over NVLink and the network") {
  Topology topology = cluster();
  struct Expected {
    Collective collective;
    double out;     // of the larger buffer, what each GPU sends out of its host or gets into it
    double within;  // and over NVLink, that which has most to do
    double memory;  // and reads and writes in its own memory
  };
  // By hand: of blocks, four to a GPU, each goes to three hosts; and those of a GPU, from four hosts, to seven GPUs. Of
  // a vector, an eighth goes to one host, and the root's GPU sends seven eighths and its own eighth to seven GPUs. In
  // its memory are four ranks: each reads four contributions to its quarter and writes the sum, or passes on blocks.
  for (auto [collective, out, within, memory] :
       {Expected{TUTTI_ALL_GATHER, 3.0 / 32, 7.0 / 8, 7.9}, Expected{TUTTI_REDUCE_SCATTER, 3.0 / 32, 7.0 / 8, 7.2},
        Expected{TUTTI_BROADCAST, 1.0 / 8, 7.0 / 4, 4}, Expected{TUTTI_REDUCE, 1.0 / 8, 7.0 / 4, 4}}) {
    CAPTURE(name_of(collective));
    Request request = request_of(collective, 33, kLarge);
    Choice choice = must_choose(topology, request);
    INFO(to_text(topology, request, choice, {.candidates = true}));
    CHECK(choice.plan.shape().algorithm == "hierarchical");
    CHECK(choice.plan.shape().groups == Groups{kRanks, kRanks * kGpus});
    double busiest_s = std::max({out * kLarge / kNic, within * kLarge / kNvLinks, memory * kLarge / kMemory});
    CHECK(static_cast<double>(choice.predicted_ns) > busiest_s * 1e9);
    CHECK(static_cast<double>(choice.predicted_ns) < busiest_s * 1e9 * 1.5);
  }
}

}  // namespace tutti
