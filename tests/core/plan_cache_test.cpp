// Plans that the user gives (core/prepared.h), on ranks whose slots are not all in use.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/prepared.h"
#include "plan/text.h"
#include "plan/validate.h"

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
      steps += fmt::format(R"({{"kind": "put", "peer": {}, "sources": ["input[{}]"]}},)", peer, chunk);
    }
    for (int chunk : {0, 1, 2}) {
      std::string mine = fmt::format(R"("input[{}]")", chunk), theirs = fmt::format(R"("arrival[{}]")", peer);
      std::string sources = rank == 0 ? mine + ", " + theirs : theirs + ", " + mine;
      steps += fmt::format(R"({{"kind": "wait", "peer": {}, "chunk": {}}},)", peer, chunk);
      steps += fmt::format(R"({{"kind": "reduce", "finish": true, "sources": [{}],
                                "destinations": ["output[{}]"]}}{})", sources, chunk, chunk < 2 ? "," : "");
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
  CHECK(prove(*plan, 3).message() == "");
  CHECK_FALSE(prove(*plan, 2).ok());
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
  auto check_refused = [](const Status& refused, const std::string& payloads, const std::string& most) {
    CHECK(refused.code() == Code::kInvalidUsage);
    CHECK_THAT(std::string(refused.message()), Catch::Contains("payloads of " + payloads + " bytes") &&
                                                   Catch::Contains("slice_bytes " + most + " or less"));
  };
  check_refused(use(128 * kKiB + 64), "131136", "131072");

  // Partial results of types that are summed in float32 are twice as large as their slices.
  PlanCache cache(topology, 0, Tuning(), layout);
  REQUIRE(cache.use(three_on_the_way(128 * kKiB)).ok());
  Request request{.collective = TUTTI_ALL_REDUCE, .datatype = TUTTI_FLOAT32, .count = 1};
  CHECK(cache.get(request).ok());
  request.datatype = TUTTI_FLOAT16;
  check_refused(cache.get(request).status(), "262144", "65536");

  layout.mapped_slots.most = 2;
  CHECK_FALSE(use(128 * kKiB).ok());
}
