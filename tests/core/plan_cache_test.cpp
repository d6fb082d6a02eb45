// Plans that the user gives (core/prepared.h), on ranks whose slots are not all in use.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/prepared.h"
#include "core/thresholds.h"
#include "plan/text.h"
#include "plan/validate.h"

using namespace tutti;

namespace {

constexpr uint64_t kKiB = 1024;

// Ranks that send the others so many chunks before they take the first.
Plan on_the_way(int chunks, uint64_t slice_bytes, int nranks = 2) {
  std::string parts;
  for (int rank = 0; rank < nranks; ++rank) {
    std::string steps;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int peer = 0; peer < nranks; ++peer) {
        if (peer == rank) continue;
        steps += fmt::format(R"({{"kind": "put", "peer": {}, "sources": ["input[{}]"]}},)", peer, chunk);
      }
    }
    for (int chunk = 0; chunk < chunks; ++chunk) {
      std::string sources;
      for (int peer = 0; peer < nranks; ++peer) {
        if (!sources.empty()) sources += ", ";
        sources += peer == rank ? fmt::format(R"("input[{}]")", chunk) : fmt::format(R"("arrival[{}]")", peer);
        if (peer == rank) continue;
        steps += fmt::format(R"({{"kind": "wait", "peer": {}, "chunk": {}}},)", peer, chunk);
      }
      steps += fmt::format(R"({{"kind": "reduce", "finish": true, "sources": [{}],
                                "destinations": ["output[{}]"]}}{})", sources, chunk, chunk + 1 < chunks ? "," : "");
    }
    parts += fmt::format(R"({{"rank": {}, "channel": 0, "sections": [{{"steps": [{}]}}]}}{})", rank, steps,
                         rank + 1 < nranks ? "," : "");
  }
  auto plan = parse_plan(fmt::format(R"({{"format": "tutti.plan", "version": 1,
      "shape": {{"algorithm": "test", "collective": "all_reduce", "nranks": {}, "root": -1, "channels": 1, "chunks": {},
                 "slice_bytes": {}, "by_reference": "never", "deliver_directly": "never"}}, "parts": [{}]}})",
                                     nranks, chunks, slice_bytes, parts));
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
Status answer(const Topology& topology, int rank, Plan plan, Datatype datatype = TUTTI_FLOAT32,
              ReduceOp op = TUTTI_SUM) {
  const StreamLayout layout{.nranks = topology.nranks(), .channels = 1};
  PlanCache cache(topology, rank, Tuning(), layout);
  TUTTI_TRY(cache.use(std::move(plan)));
  return cache.get({.collective = TUTTI_ALL_REDUCE, .datatype = datatype, .op = op, .count = 1}).status();
}

}  // namespace

TEST_CASE("a plan that needs more slots than are in use is refused, by the size of its payloads") {
  const Topology own_cores = topology_of({2}), turns = topology_of({1}), few_slots = topology_of({1}, 1 << 20);
  CHECK(answer(own_cores, 0, on_the_way(3, 256 * kKiB)).message() == "");
  CHECK(answer(turns, 0, on_the_way(3, 128 * kKiB)).message() == "");
  CHECK(answer(turns, 0, on_the_way(2, 256 * kKiB)).message() == "");
  check_refused(answer(turns, 0, on_the_way(3, 128 * kKiB + 64)), "131136", "131072");
  CHECK_THAT(std::string(answer(few_slots, 0, on_the_way(3, 64)).message()),
             Catch::Contains("more than 2 slots, which is what ranks"));
  CHECK(answer(few_slots, 0, on_the_way(2, 256 * kKiB)).message() == "");

  // Partial results of types that are summed in float32 are larger than their slices.
  check_refused(answer(turns, 0, on_the_way(3, 128 * kKiB), TUTTI_FLOAT16), "262144", "65536");
  check_refused(answer(turns, 0, on_the_way(3, 64 * kKiB), TUTTI_FLOAT8_E4M3), "262144", "32768");
  CHECK(answer(turns, 0, on_the_way(3, 128 * kKiB), TUTTI_FLOAT16, TUTTI_MIN).message() == "");
  CHECK(answer(turns, 0, on_the_way(2, 128 * kKiB), TUTTI_FLOAT16).message() == "");
}

TEST_CASE("the host with the fewest slots counts for the ranks of all") {
  const StreamLayout layout{.nranks = 4, .channels = 1};
  MappedSlots least = least_mapped_slots(topology_of({2, 1}), layout);
  CHECK(least.most == 4);
  CHECK(least.large_bytes == 128 * kKiB);
  least = least_mapped_slots(topology_of({1, 2}, 1 << 20), layout);
  CHECK(least.most == 2);
  CHECK(least.large_bytes == UINT64_MAX);
  least = least_mapped_slots(topology_of({2, 2}), layout);
  CHECK(least.most == 4);
  CHECK(least.large_bytes == UINT64_MAX);
}

TEST_CASE("all ranks refuse alike a plan that one host's ranks have no slots for") {
  for (const std::vector<int>& cpus_of_hosts : {std::vector<int>{2, 1}, std::vector<int>{1, 2}}) {
    const Topology topology = topology_of(cpus_of_hosts);
    for (int rank = 0; rank < topology.nranks(); ++rank) {
      check_refused(answer(topology, rank, on_the_way(3, 256 * kKiB, 4)), "262144", "131072");
      check_refused(answer(topology, rank, on_the_way(3, 128 * kKiB, 4), TUTTI_FLOAT16), "262144", "65536");
      CHECK(answer(topology, rank, on_the_way(3, 128 * kKiB, 4)).message() == "");
    }
  }
}
