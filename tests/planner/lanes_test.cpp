// Plans for ranks that reach each other over several RDMA devices side by side.
#include <catch2/catch.hpp>

#include "plan/validate.h"
#include "planner/explain.h"
#include "planner/planner.h"
#include "planner/topologies.h"

namespace tutti {
namespace {

using Catch::Matchers::Contains;

Request all_reduce_of(uint64_t bytes) { return {.count = bytes / sizeof(float)}; }

Choice must_choose(const Topology& topology, const Request& request, const Tuning& tuning = {}) {
  auto choice = choose(topology, request, tuning);
  REQUIRE(choice.ok());
  return std::move(*choice);
}

int channels_of(const Topology& topology, const Request& request, const Tuning& tuning = {}) {
  return must_choose(topology, request, tuning).plan.shape().channels;
}

}  // namespace

TEST_CASE("large calls have a channel for each RDMA port that all ranks use side by side") {
  for (int ranks_per_host : {1, 4}) {
    CHECK(channels_of(test::with_rdma(4, ranks_per_host, 2), all_reduce_of(64 << 20)) == 2);
    CHECK(channels_of(test::with_rdma(4, ranks_per_host, 1), all_reduce_of(64 << 20)) == 1);
    CHECK(channels_of(test::with_rdma(4, ranks_per_host, 4), all_reduce_of(64 << 20)) == kUsualChannels);
    CHECK(channels_of(test::make_topology(4, ranks_per_host), all_reduce_of(64 << 20)) == 1);
  }
  Topology topology = test::with_rdma(4, 1, 2);
  Tuning tuning;
  tuning.algorithm = "ring";  // the double binary tree has two in any case
  CHECK(channels_of(topology, all_reduce_of(4096), tuning) == 1);
  Request with_counts{.collective = TUTTI_ALL_TO_ALL_V, .count = count_of_unknown_blocks(TUTTI_FLOAT32, 4)};
  CHECK(channels_of(topology, with_counts) == 2);
  CHECK(channels_of(test::make_topology(4, 1), with_counts) == 1);
  CHECK(channels_of(topology, {.collective = TUTTI_ALL_GATHER_V, .count = 1000}) == 1);
  CHECK(channels_of(topology, {.collective = TUTTI_ALL_GATHER_V, .count = 16 << 20}) == 2);
  tuning.channels = 4;
  CHECK(channels_of(topology, all_reduce_of(64 << 20), tuning) == 4);
  tuning.channels = 1;
  CHECK(channels_of(topology, all_reduce_of(64 << 20), tuning) == 1);
  tuning.channels = 0;
  topology.ranks[3].rdma_lanes = 1;
  CHECK(channels_of(topology, all_reduce_of(64 << 20), tuning) == 1);
  topology.ranks[3].rdma_lanes = 2;
  topology.forced_transport = "tcp";
  CHECK(channels_of(topology, all_reduce_of(64 << 20), tuning) == 1);
}

TEST_CASE("two RDMA ports carry twice as much, unless what the network carries was measured") {
  Topology one = test::with_rdma(2, 1, 1), two = test::with_rdma(2, 1, 2);
  CHECK(two.link(0, 1).bytes_per_s.value == 2 * one.link(0, 1).bytes_per_s.value);
  Tuning tuning;
  tuning.algorithm = "ring";  // the double binary tree has two channels in any case
  uint64_t once = must_choose(one, all_reduce_of(256 << 20), tuning).predicted_ns;
  uint64_t twice = must_choose(two, all_reduce_of(256 << 20), tuning).predicted_ns;
  CHECK(twice < once * 6 / 10);
  tuning.channels = 1;
  CHECK(must_choose(two, all_reduce_of(256 << 20), tuning).predicted_ns > once * 9 / 10);
  for (Topology* each : {&one, &two}) {
    for (TopologyHost& host : each->hosts) host.network_bytes_per_s.origin = Origin::kUser;
  }
  CHECK(two.link(0, 1).bytes_per_s.value == one.link(0, 1).bytes_per_s.value);
}

TEST_CASE("what RDMA devices move is not priced as what goes through sockets") {
  Topology topology = test::with_rdma(4);
  for (uint64_t size_bytes : {4 << 10, 1 << 20, 64 << 20}) {
    uint64_t before = must_choose(topology, all_reduce_of(size_bytes)).predicted_ns;
    Topology slow = topology;
    for (TopologyHost& host : slow.hosts) {
      host.inventory.costs.tcp_send_ns.value *= 100;
      host.inventory.costs.tcp_receive_ns.value *= 100;
      host.inventory.costs.tcp_bytes_per_s.value /= 100;
      host.inventory.costs.tcp_both_bytes_per_s.value /= 100;
      host.inventory.costs.large_tcp_bytes_per_s.value /= 100;
      host.inventory.costs.large_tcp_both_bytes_per_s.value /= 100;
    }
    CHECK(must_choose(slow, all_reduce_of(size_bytes)).predicted_ns == before);
    slow.forced_transport = "tcp";
    CHECK(must_choose(slow, all_reduce_of(size_bytes)).predicted_ns > 2 * before);
  }
}

TEST_CASE("what RDMA devices only move has slices as large as slots, what is combined those of a core's cache") {
  Topology topology = test::with_rdma(4);
  Tuning tuning;
  tuning.max_slice_bytes = 512 << 10;
  auto slice_bytes = [&](Collective collective, const char* algorithm, const Topology& of) {
    tuning.algorithm = algorithm;
    Request request = all_reduce_of(64 << 20);
    request.collective = collective;
    request.root = has_root(collective) ? 0 : -1;
    return must_choose(of, request, tuning).plan.shape().slice_bytes;
  };
  CHECK(slice_bytes(TUTTI_BROADCAST, "direct", topology) == tuning.max_slice_bytes);
  CHECK(slice_bytes(TUTTI_ALL_GATHER, "ring", topology) == tuning.max_slice_bytes);
  CHECK(slice_bytes(TUTTI_ALL_REDUCE, "ring", topology) == 128 << 10);
  CHECK(slice_bytes(TUTTI_BROADCAST, "direct", test::make_topology(4, 1)) == 128 << 10);
}

TEST_CASE("a receiver that has said where its output is copies nothing") {
  Topology topology = test::with_rdma(2);
  for (TopologyHost& host : topology.hosts) host.network_bytes_per_s.value = 1'000'000'000'000;
  const Algorithm* algorithm = find_algorithm(TUTTI_ALL_GATHER, "direct");
  Request request{.collective = TUTTI_ALL_GATHER, .count = 16 << 20};
  Tuning tuning;
  PlanShape shape = algorithm->shape(topology, request, tuning);
  uint64_t copied = algorithm->predict({topology, request, tuning}, shape).ns;
  shape.rendezvous = true;
  CHECK(algorithm->predict({topology, request, tuning}, shape).ns < copied * 8 / 10);
}

TEST_CASE("a plan that uses several RDMA ports says so, and is right") {
  Topology topology = test::with_rdma(3, 1, 2);
  for (const Algorithm* algorithm : algorithms()) {
    Request request = all_reduce_of(64 << 20);
    request.collective = algorithm->collective;
    if (has_root(request.collective)) request.root = 1;
    if (!algorithm->admit(topology, request).empty()) continue;
    Tuning tuning;
    tuning.algorithm = algorithm->name;
    Choice choice = must_choose(topology, request, tuning);
    INFO(name_of(request.collective) << " by " << algorithm->name);
    CHECK(prove(choice.plan, 4).ok());
    bool says_so = to_text(topology, request, choice, {}).find("2 RDMA ports, each for") != std::string::npos;
    CHECK(says_so == (request.collective != TUTTI_BARRIER));
  }
}

}  // namespace tutti
