// What the cost model predicts of messages over sockets.
#include <catch2/catch.hpp>

#include "planner/choices.h"
#include "planner/topologies.h"

namespace tutti {
namespace {

// One host, where a small message takes 10 us, of which the call that sends it takes 8, and a turn 1.
Topology over_sockets(int nranks, int cpus, uint64_t receive_ns) {
  Topology topology = test::make_topology(1, nranks, cpus);
  topology.forced_transport = "tcp";
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.yield_ns.value = 1'000;
  costs.tcp_ns.value = 10'000;
  costs.tcp_send_ns.value = 8'000;
  costs.tcp_receive_ns.value = receive_ns;
  return topology;
}

TEST_CASE("over sockets a rank sends while another one's message is on its way") {
  Topology topology = over_sockets(2, 64, 5'000);
  // Two calls, and what of the way is not the sender's.
  uint64_t all_ns = predicted_of(topology, TUTTI_ALL_GATHER, 64);
  CHECK(all_ns >= 15'000);
  CHECK(all_ns < 15'500);
  // Who only sends is ahead by half a way.
  uint64_t gather_ns = predicted_of(topology, TUTTI_GATHER, 64);
  CHECK(gather_ns >= 13'000);
  CHECK(gather_ns < 13'500);
}

TEST_CASE("over sockets ranks that take turns have each other's calls to make while a message is on its way") {
  Topology topology = over_sockets(4, 2, 1'000);
  // Calls for 12 messages on two processors, what of the way is not the sender's, and two turns of 1.25 us.
  uint64_t all_ns = predicted_of(topology, TUTTI_ALL_GATHER, 64);
  CHECK(all_ns >= 58'500);
  CHECK(all_ns < 59'500);
  // Along a chain one in the middle makes two calls, another rank on its processor a third of what all others make, and
  // one message is on its way.
  Request request = bytes(64);
  request.collective = TUTTI_BROADCAST;
  request.root = 0;
  uint64_t chain_ns = predicted(must_choose(topology, request), "chain");
  uint64_t calls_ns = 9'000 + 2 * 9'000 / 3, way_ns = 10'000 - 8'000, turn_ns = 1'000;
  CHECK(chain_ns >= calls_ns + way_ns + turn_ns);
  CHECK(chain_ns < calls_ns + way_ns + turn_ns + 1'000);
  topology.hosts[0].inventory.costs.yield_ns.value = 9'000;
  CHECK(predicted(must_choose(topology, request), "chain") == chain_ns + 8'000);
  CHECK(predicted_of(topology, TUTTI_ALL_GATHER, 64) == all_ns + 2 * 10'000);
}

TEST_CASE("calls on sockets that take longer never make anything quicker, whoever shares a processor") {
  for (auto [nranks, cpus] : {std::pair{4, 4}, std::pair{4, 2}, std::pair{8, 4}, std::pair{8, 2}}) {
    for (Collective collective : {TUTTI_ALL_REDUCE, TUTTI_BROADCAST, TUTTI_REDUCE, TUTTI_ALL_GATHER}) {
      Topology topology = test::make_topology(1, nranks, cpus);
      topology.forced_transport = "tcp";
      Request request = bytes(64);
      request.collective = collective;
      request.root = has_root(collective) ? 0 : -1;
      for (Figure Costs::*figure : {&Costs::tcp_send_ns, &Costs::tcp_receive_ns}) {
        Choice before = must_choose(topology, request);
        for (uint64_t times : {2, 3, 16}) {
          Topology slower = topology;
          (slower.hosts[0].inventory.costs.*figure).value *= times;
          Choice after = must_choose(slower, request);
          for (const Candidate& candidate : before.candidates) {
            CHECK(predicted(after, candidate.algorithm) >= candidate.predicted_ns);
          }
        }
      }
    }
  }
}

TEST_CASE("over sockets a root that sends to several takes longer than one that receives from them") {
  Topology topology = over_sockets(4, 64, 1'000);
  uint64_t broadcast_ns = predicted_of(topology, TUTTI_BROADCAST, 64);
  CHECK(broadcast_ns >= 29'000);
  CHECK(broadcast_ns < 29'500);
  uint64_t reduce_ns = predicted_of(topology, TUTTI_REDUCE, 64);
  CHECK(reduce_ns >= 13'000);
  CHECK(reduce_ns < 13'500);
}

TEST_CASE("over sockets receiving costs what both directions at once take more than one, and memory comes on top") {
  Topology topology = test::make_topology(1, 2);
  topology.forced_transport = "tcp";
  topology.hosts[0].inventory.caches.push_back({3, 64 << 20, 1, 64});
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.tcp_bytes_per_s.value = 1'000'000'000;
  costs.tcp_both_bytes_per_s.value = 750'000'000;
  costs.cached_copy_bytes_per_s.value = costs.last_level_copy_bytes_per_s.value = 1'000'000'000'000;
  constexpr uint64_t kBytes = 4 << 20;
  auto in_ns = [](double bytes, double bytes_per_us) { return bytes / bytes_per_us * 1000; };
  auto all_gather_ns = [&] { return static_cast<double>(predicted_of(topology, TUTTI_ALL_GATHER, kBytes)); };
  double cached_ns = all_gather_ns();
  CHECK_THAT(cached_ns, Catch::Matchers::WithinRel(in_ns(kBytes / 2, 750), 0.05));
  costs.copy_bytes_per_s.value = 1'000'000'000;
  costs.memory_bytes_per_s.value = 2'000'000'000;
  topology.hosts[0].inventory.caches.clear();
  // Half a copy at each end, and one of the own block.
  CHECK_THAT(all_gather_ns() - cached_ns, Catch::Matchers::WithinRel(in_ns(kBytes / 2, 1000) * 2, 0.05));
}

TEST_CASE("over sockets large messages cost what was measured of those, and those between something between") {
  auto predicted_with = [](uint64_t slice_bytes, uint64_t large_bytes_per_s) {
    Topology topology = test::make_topology(1, 2);
    topology.forced_transport = "tcp";
    topology.hosts[0].inventory.caches.push_back({3, 64 << 20, 1, 64});
    Costs& costs = topology.hosts[0].inventory.costs;
    costs.tcp_bytes_per_s.value = costs.tcp_both_bytes_per_s.value = 1'000'000'000;
    costs.large_tcp_bytes_per_s.value = costs.large_tcp_both_bytes_per_s.value = large_bytes_per_s;
    costs.cached_copy_bytes_per_s.value = costs.last_level_copy_bytes_per_s.value = 1'000'000'000'000;
    Tuning tuning;
    tuning.max_slice_bytes = 512 << 10;
    tuning.slice_bytes = slice_bytes;
    Request request = bytes(6 << 20);
    request.collective = TUTTI_ALL_GATHER;
    return static_cast<double>(predicted(must_choose(topology, request, tuning), "direct"));
  };
  constexpr uint64_t kSame = 1'000'000'000, kTwice = 2'000'000'000;
  auto gained = [&](uint64_t slice_bytes) {
    return predicted_with(slice_bytes, kTwice) / predicted_with(slice_bytes, kSame);
  };
  auto about = [](double share) { return Catch::Matchers::WithinRel(share, 0.05); };
  CHECK(gained(256 << 10) == 1);
  CHECK_THAT(gained(384 << 10), about(0.75));
  CHECK_THAT(gained(512 << 10), about(1 / 2.0));
}

TEST_CASE("over sockets a root that receives has time for its own block, since its peer's calls take longer") {
  Topology topology = test::make_topology(1, 2);
  topology.forced_transport = "tcp";
  topology.hosts[0].inventory.caches.push_back({3, 64 << 20, 1, 64});
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.tcp_bytes_per_s.value = 1'000'000'000;
  costs.tcp_both_bytes_per_s.value = 750'000'000;  // so receiving takes a third of a nanosecond
  costs.cached_copy_bytes_per_s.value = costs.last_level_copy_bytes_per_s.value = 2'000'000'000;
  constexpr uint64_t kBytes = 4 << 20;
  auto about = [](double ns) { return Catch::Matchers::WithinRel(ns, 0.05); };
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_GATHER, kBytes)), about(kBytes / 2));
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_SCATTER, kBytes)), about(kBytes / 2 * 1.5));
}

TEST_CASE("what sockets hold costs more where it exceeds the caches, and less goes around a ring at a time") {
  auto choose_with = [](uint64_t cache_bytes) {
    Topology topology = test::make_topology(1, 8, 2);
    topology.forced_transport = "tcp";
    topology.hosts[0].inventory.caches = {{2, cache_bytes, 2, 1}};
    Tuning tuning;
    tuning.slice_bytes = 128 << 10;
    return must_choose(topology, bytes(1 << 20), tuning);
  };
  Choice roomy = choose_with(16 << 20), crowded = choose_with(1 << 20);
  CHECK(predicted(crowded, "direct_two_shot") > predicted(roomy, "direct_two_shot"));
  CHECK(predicted(crowded, "ring") < predicted(crowded, "direct_two_shot"));
}

TEST_CASE("hops of a pipeline hold what is on the way at the same time") {
  auto tree_ns = [](uint64_t cache_bytes) {
    Topology topology = test::make_topology(1, 8, 2);
    topology.forced_transport = "tcp";
    topology.hosts[0].inventory.caches = {{2, cache_bytes, 2, 1}, {3, 1 << 30, 1, 2}};
    Costs& costs = topology.hosts[0].inventory.costs;
    // What the second-level cache holds besides is of no account.
    costs.last_level_copy_bytes_per_s = costs.cached_copy_bytes_per_s;
    costs.last_level_bytes_per_s = costs.cached_bytes_per_s;
    Tuning tuning;
    tuning.slice_bytes = 128 << 10;
    return predicted(must_choose(topology, bytes(4 << 20), tuning), "binomial_tree");
  };
  // 14 links with two slices each, for two processors.
  CHECK(tree_ns(1536 << 10) > tree_ns(2 << 20));
  CHECK(tree_ns(2 << 20) == tree_ns(16 << 20));
}

}  // namespace
}  // namespace tutti
