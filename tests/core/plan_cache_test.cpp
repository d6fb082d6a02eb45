// Plans that the user gives (core/prepared.h), on ranks whose slots are not all in use.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/prepared.h"
#include "plan/text.h"
#include "plan/validate.h"

using namespace tutti;

namespace {

constexpr uint64_t kKiB = 1024;

// Two ranks that send each other so many chunks before they take the first.
Plan on_the_way(int chunks, uint64_t slice_bytes) {
  std::string parts;
  for (int rank : {0, 1}) {
    int peer = 1 - rank;
    std::string steps;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      steps += fmt::format(R"({{"kind": "put", "peer": {}, "sources": ["input[{}]"]}},)", peer, chunk);
    }
    for (int chunk = 0; chunk < chunks; ++chunk) {
      std::string mine = fmt::format(R"("input[{}]")", chunk), theirs = fmt::format(R"("arrival[{}]")", peer);
      std::string sources = rank == 0 ? mine + ", " + theirs : theirs + ", " + mine;
      steps += fmt::format(R"({{"kind": "wait", "peer": {}, "chunk": {}}},)", peer, chunk);
      steps += fmt::format(R"({{"kind": "reduce", "finish": true, "sources": [{}],
                                "destinations": ["output[{}]"]}}{})", sources, chunk, chunk + 1 < chunks ? "," : "");
    }
    parts += fmt::format(R"({{"rank": {}, "channel": 0, "sections": [{{"steps": [{}]}}]}}{})", rank, steps,
                         rank == 0 ? "," : "");
  }
  auto plan = parse_plan(fmt::format(R"({{"format": "tutti.plan", "version": 1,
      "shape": {{"algorithm": "test", "collective": "all_reduce", "nranks": 2, "root": -1, "channels": 1, "chunks": {},
                 "slice_bytes": {}, "by_reference": "never", "deliver_directly": "never"}}, "parts": [{}]}})",
                                     chunks, slice_bytes, parts));
  REQUIRE(plan.status().message() == "");
  CHECK(prove(*plan, chunks).message() == "");
  CHECK_FALSE(prove(*plan, chunks - 1).ok());
  return std::move(*plan);
}

// Two ranks on hosts of so many processors; each core has 1 MiB of its own, and all the rest together.
Topology topology_of(std::vector<int> cpus_of_hosts, uint64_t last_level_bytes = 32 << 20) {
  Topology topology;
  for (int cpus : cpus_of_hosts) {
    auto index = static_cast<int>(topology.hosts.size());
    TopologyHost host;
    host.inventory.cpu.logical_cpus = cpus;
    for (int cpu = 0; cpu < cpus; ++cpu) host.inventory.cpu.allowed_cpus.push_back(cpu);
    host.inventory.caches = {{.level = 2, .size_bytes = 1 << 20, .instances = cpus, .cpus_sharing = 1},
                             {.level = 3, .size_bytes = last_level_bytes, .instances = 1, .cpus_sharing = cpus}};
    for (int local = 0; local < 2; ++local) {
      host.ranks.push_back(static_cast<int>(topology.ranks.size()));
      topology.ranks.push_back({.host = index, .local_rank = local});
    }
    topology.hosts.push_back(std::move(host));
  }
  return topology;
}

void check_refused(const Status& refused, const std::string& payloads, const std::string& most) {
  CHECK(refused.code() == Code::kInvalidUsage);
  CHECK_THAT(std::string(refused.message()), Catch::Contains("payloads of " + payloads + " bytes") &&
                                                 Catch::Contains("slice_bytes " + most + " or less"));
}

// What the rank says to a plan, and then to a call of it.
Status answer(const Topology& topology, Plan plan, Datatype datatype = TUTTI_FLOAT32, ReduceOp op = TUTTI_SUM) {
  const StreamLayout layout{.nranks = topology.nranks(), .channels = 1};
  PlanCache cache(topology, 0, Tuning(), layout);
  TUTTI_TRY(cache.use(std::move(plan)));
  auto prepared = cache.get({.collective = TUTTI_ALL_REDUCE, .datatype = datatype, .op = op, .count = 1});
  return prepared.ok() ? Status() : std::move(prepared).status();
}

}  // namespace

TEST_CASE("a plan that needs more slots than are in use is refused, by the size of its payloads") {
  const Topology own_cores = topology_of({2}), turns = topology_of({1}), few_slots = topology_of({1}, 1 << 20);
  CHECK(answer(own_cores, on_the_way(3, 256 * kKiB)).message() == "");
  CHECK(answer(turns, on_the_way(3, 128 * kKiB)).message() == "");
  CHECK(answer(turns, on_the_way(2, 256 * kKiB)).message() == "");
  check_refused(answer(turns, on_the_way(3, 128 * kKiB + 64)), "131136", "131072");
  CHECK_THAT(std::string(answer(few_slots, on_the_way(3, 64)).message()), Catch::Contains("more than 2 slots"));
  CHECK(answer(few_slots, on_the_way(2, 256 * kKiB)).message() == "");

  // Partial results of types that are summed in float32 are larger than their slices.
  check_refused(answer(turns, on_the_way(3, 128 * kKiB), TUTTI_FLOAT16), "262144", "65536");
  check_refused(answer(turns, on_the_way(3, 64 * kKiB), TUTTI_FLOAT8_E4M3), "262144", "32768");
  CHECK(answer(turns, on_the_way(3, 128 * kKiB), TUTTI_FLOAT16, TUTTI_MIN).message() == "");
  CHECK(answer(turns, on_the_way(2, 128 * kKiB), TUTTI_FLOAT16).message() == "");
}

TEST_CASE("all ranks refuse a plan that one host's ranks have no slots for") {
  const Topology topology = topology_of({2, 1});
  const StreamLayout layout{.nranks = topology.nranks(), .channels = 1};
  for (int rank = 0; rank < topology.nranks(); ++rank) {
    PlanCache cache(topology, rank, Tuning(), layout);
    CHECK(cache.least_slots() == std::pair(4, uint64_t{128 * kKiB}));
  }
  const Topology fewer = topology_of({1, 2}, 1 << 20);
  CHECK(PlanCache(fewer, 2, Tuning(), layout).least_slots() == std::pair(2, UINT64_MAX));
}
