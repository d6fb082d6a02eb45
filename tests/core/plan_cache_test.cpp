// Plans that the user gives (core/prepared.h), on ranks whose slots are not all in use.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/prepared.h"
#include "plan/text.h"

using namespace tutti;

namespace {

constexpr uint64_t kKiB = 1024;

// Two ranks that send each other three chunks before they take the first.
Plan three_on_the_way(uint64_t slice_bytes) {
  std::string parts;
  for (int rank : {0, 1}) {
    int peer = 1 - rank;
    std::string steps;
    for (int chunk : {0, 1, 2}) {
      steps += fmt::format(R"({{"kind": "put", "peer": {}, "chunk": {}, "sources": ["input[{}]"]}},)", peer, chunk,
                           chunk);
    }
    for (int chunk : {0, 1, 2}) {
      std::string mine = fmt::format(R"("input[{}]")", chunk), theirs = fmt::format(R"("arrival[{}]")", peer);
      std::string sources = rank == 0 ? mine + ", " + theirs : theirs + ", " + mine;
      steps += fmt::format(R"({{"kind": "wait", "peer": {}, "chunk": {}}},)", peer, chunk);
      steps += fmt::format(R"({{"kind": "reduce", "finish": true, "chunk": {}, "sources": [{}],
                                "destinations": ["output[{}]"]}}{})", chunk, sources, chunk, chunk < 2 ? "," : "");
    }
    parts += fmt::format(R"({{"rank": {}, "channel": 0, "sections": [{{"steps": [{}]}}]}}{})", rank, steps,
                         rank == 0 ? "," : "");
  }
  auto plan = parse_plan(fmt::format(R"({{"format": "tutti.plan", "version": 1,
      "shape": {{"algorithm": "three", "collective": "all_reduce", "nranks": 2, "root": -1, "channels": 1, "chunks": 3,
                 "slice_bytes": {}, "by_reference": "never", "deliver_directly": "never"}}, "parts": [{}]}})",
                                     slice_bytes, parts));
  INFO((plan.ok() ? "" : plan.status().message()));
  REQUIRE(plan.ok());
  return std::move(*plan);
}

}  // namespace

TEST_CASE("a plan that needs more slots than are in use is refused, by the size of its slices") {
  Topology topology;
  topology.hosts.resize(1);
  topology.hosts.front().ranks = {0, 1};
  topology.ranks.resize(2);
  StreamLayout layout{.nranks = 2, .channels = 1};
  auto use = [&](uint64_t slice_bytes) {
    return PlanCache(topology, 0, Tuning(), layout).use(three_on_the_way(slice_bytes));
  };
  CHECK(use(128 * kKiB).ok());
  CHECK(use(256 * kKiB).ok());
  layout.mapped_slots.large_bytes = 128 * kKiB;
  CHECK(use(128 * kKiB).ok());
  Status refused = use(128 * kKiB + 64);
  CHECK(refused.code() == Code::kInvalidUsage);
  const std::string message(refused.message());
  CHECK_THAT(message, Catch::Contains("slices of 131136 bytes") && Catch::Contains("slice_bytes 131072 or less"));
  layout.mapped_slots.most = 2;
  CHECK_FALSE(use(128 * kKiB).ok());
}
