// What predictions count: processors, memory, caches, pulls.
#include <catch2/catch.hpp>

#include <cmath>

#include "planner/choices.h"
#include "planner/topologies.h"

namespace tutti {

TEST_CASE("ranks that share a processor take turns") {
  for (uint64_t size_bytes : {64, 1 << 20, 64 << 20}) {
    Choice roomy = must_choose(test::make_topology(1, 8, 8), bytes(size_bytes));
    Choice crowded = must_choose(test::make_topology(1, 8, 2), bytes(size_bytes));
    for (const Candidate& candidate : roomy.candidates) {
      if (!candidate.admitted) continue;
      // Where the memory is the limit, it makes no difference, but for what is rounded.
      uint64_t crowded_ns = predicted(crowded, candidate.algorithm);
      CHECK(crowded_ns + crowded_ns / 100 > candidate.predicted_ns);
      if (size_bytes == 64) CHECK(crowded_ns > candidate.predicted_ns);
    }
  }
}

TEST_CASE("a hop costs one turn, or two where ranks wait for several others, and a slice that flows one way one") {
  // So much longer than all else that the rest is less than one. A turn takes a tenth more than a yield, and of what
  // flows one way an eighth less.
  constexpr uint64_t kYieldNs = 80'000'000;
  auto turns = [](Collective collective, std::string_view algorithm, uint64_t size_bytes, int nranks) {
    Topology topology = test::make_topology(1, nranks, 2);
    topology.hosts[0].inventory.costs.yield_ns.value = kYieldNs;
    Request request = bytes(size_bytes);
    request.collective = collective;
    request.root = has_root(collective) ? 0 : -1;
    bool is_one_way = request.root == 0 && algorithm != "direct_two_shot";
    return predicted(must_choose(topology, request), algorithm) / (is_one_way ? kYieldNs / 8 * 7 : kYieldNs / 10 * 11);
  };
  for (uint64_t size_bytes : {8, 16 << 10}) {
    CHECK(turns(TUTTI_ALL_REDUCE, "direct_one_shot", size_bytes, 4) == 2);
    CHECK(turns(TUTTI_ALL_REDUCE, "direct_two_shot", size_bytes, 4) == 4);
    CHECK(turns(TUTTI_ALL_REDUCE, "recursive_doubling", size_bytes, 4) == 3);
    CHECK(turns(TUTTI_ALL_REDUCE, "ring", size_bytes, 4) == 7);
    CHECK(turns(TUTTI_ALL_GATHER, "bruck", size_bytes, 4) == 3);
    for (const char* algorithm : {"direct", "binomial_tree", "chain"}) {
      CHECK(turns(TUTTI_BROADCAST, algorithm, size_bytes, 4) == 1);
      CHECK(turns(TUTTI_REDUCE, algorithm, size_bytes, 4) == 1);
    }
    CHECK(turns(TUTTI_REDUCE, "direct_two_shot", size_bytes, 4) == 4);
    // Three others have the processor first.
    CHECK(turns(TUTTI_ALL_REDUCE, "direct_one_shot", size_bytes, 8) == 6);
    CHECK(turns(TUTTI_BROADCAST, "direct", size_bytes, 8) == 3);
    CHECK(turns(TUTTI_ALL_REDUCE, "direct_one_shot", size_bytes, 2) == 0);
  }
  CHECK(turns(TUTTI_BROADCAST, "chain", 1 << 20, 4) == 16);  // slices of 64 KiB
}

TEST_CASE("a turn takes a tenth more than a yield in shared memory and a quarter elsewhere, and one way less there") {
  auto added = [](const char* transport, Collective collective) {
    auto predicted_with = [&](uint64_t yield_ns) {
      Topology topology = test::make_topology(1, 4, 2);
      for (TopologyRank& rank : topology.ranks) rank.rdma_lanes = 1;
      topology.forced_transport = transport;
      topology.hosts[0].inventory.costs.yield_ns.value = yield_ns;
      return predicted_by(topology, collective, "direct", 64);
    };
    return predicted_with(90'000) - predicted_with(10'000);
  };
  CHECK(added("", TUTTI_ALL_GATHER) == 2 * 88'000);
  CHECK(added("", TUTTI_BROADCAST) == 70'000);
  for (const char* transport : {"tcp", "verbs"}) {
    CHECK(added(transport, TUTTI_ALL_GATHER) == 2 * 100'000);
    CHECK(added(transport, TUTTI_BROADCAST) == 80'000);
  }
}

TEST_CASE("ranks of one host that take turns cost turns, but hide the way of what flows one way only if all do") {
  constexpr uint64_t kTurnNs = 100'000'000, kYieldNs = kTurnNs / 5 * 4;
  auto predicted_with = [](int crowded, Collective collective, std::string_view algorithm, uint64_t yield_ns) {
    Topology topology = test::make_topology(2, 4);
    for (int h = 0; h < 2; ++h) {
      Inventory& inventory = topology.hosts[h].inventory;
      if (h == crowded || crowded == 2) inventory.cpu.logical_cpus = 2;
      inventory.costs.yield_ns.value = yield_ns;
    }
    Request request = bytes(64);
    request.collective = collective;
    request.root = has_root(collective) ? 0 : -1;
    return predicted(must_choose(topology, request), algorithm);
  };
  for (int crowded : {0, 1}) {
    CHECK(predicted_with(crowded, TUTTI_ALL_REDUCE, "direct_one_shot", kYieldNs) / kTurnNs == 2);
  }
  // Seven hops as slow as that between the hosts, or one.
  uint64_t both_ns = predicted_with(2, TUTTI_BROADCAST, "chain", 1);
  CHECK(predicted_with(0, TUTTI_BROADCAST, "chain", 1) > both_ns + 6 * 20'000);
  CHECK(predicted_with(1, TUTTI_BROADCAST, "chain", 1) > both_ns + 6 * 20'000);
}

TEST_CASE("ranks share what the memory gives to all of them together") {
  auto predicted_with = [](uint64_t memory_bytes_per_s, int nranks) {
    Topology topology = test::make_topology(1, nranks);
    topology.hosts[0].inventory.costs.memory_bytes_per_s.value = memory_bytes_per_s;
    return must_choose(topology, bytes(64 << 20)).predicted_ns;
  };
  CHECK(predicted_with(8'000'000'000, 8) > 2 * predicted_with(64'000'000'000, 8));
  CHECK(predicted_with(8'000'000'000, 1) == predicted_with(64'000'000'000, 1));  // one core cannot take more
}

TEST_CASE("each measured cost slows down what it is the cost of, and nothing gets faster") {
  struct Dearer {
    Figure Costs::*figure;
    bool is_rate;
    uint64_t size_bytes;
    const char* transport;
  };
  constexpr uint64_t kTiny = 64, kSmall = 4 << 10, kCached = 64 << 10, kLarge = 64 << 20;
  const Dearer all[] = {
      {&Costs::copy_bytes_per_s, true, kLarge, ""},   {&Costs::reduce_bytes_per_s, true, kLarge, ""},
      {&Costs::memory_bytes_per_s, true, kLarge, ""},
      {&Costs::slot_store_bytes_per_s, true, kLarge, ""}, {&Costs::slot_load_bytes_per_s, true, kLarge, ""},
      {&Costs::small_slot_store_bytes_per_s, true, kSmall, ""},
      {&Costs::small_slot_load_bytes_per_s, true, kSmall, ""},
      {&Costs::cached_bytes_per_s, true, kCached, ""}, {&Costs::last_level_bytes_per_s, true, 1 << 20, ""},
      {&Costs::cached_copy_bytes_per_s, true, kCached, ""}, {&Costs::last_level_copy_bytes_per_s, true, 1 << 20, ""},
      {&Costs::cache_line_ns, false, kTiny, ""},
      {&Costs::yield_ns, false, kTiny, ""},           {&Costs::tcp_ns, false, kTiny, "tcp"},
      {&Costs::tcp_send_ns, false, kTiny, "tcp"},     {&Costs::tcp_receive_ns, false, kTiny, "tcp"},
      {&Costs::tcp_bytes_per_s, true, kLarge, "tcp"},
      {&Costs::tcp_both_bytes_per_s, true, kLarge, "tcp"}};
  for (const Dearer& dearer : all) {
    Topology topology = test::make_topology(1, 8, 4);
    topology.hosts[0].inventory.caches.push_back({3, 32 << 20, 1, 4});
    topology.forced_transport = dearer.transport;
    Choice before = must_choose(topology, bytes(dearer.size_bytes));
    uint64_t& value = (topology.hosts[0].inventory.costs.*dearer.figure).value;
    value = dearer.is_rate ? value / 16 : value * 16;
    Choice after = must_choose(topology, bytes(dearer.size_bytes));
    INFO("figure " << &dearer - all);
    CHECK(after.predicted_ns > before.predicted_ns);
    for (const Candidate& candidate : before.candidates) {
      CHECK(predicted(after, candidate.algorithm) >= candidate.predicted_ns);
    }
  }
}

TEST_CASE("large contributions to a reduction are pulled where that was measured, and is quicker than slots") {
  constexpr uint64_t kNever = 20'000'000'001;
  auto predicted_with = [](uint64_t pull_bytes_per_s, uint64_t size_bytes) {
    Topology topology = test::make_topology(1, 2);
    Costs& costs = topology.hosts[0].inventory.costs;
    costs.slot_store_bytes_per_s.value = costs.slot_load_bytes_per_s.value = 5'200'000'000;
    costs.pull_bytes_per_s = {pull_bytes_per_s, pull_bytes_per_s == kNever ? Origin::kDefault : Origin::kProbe};
    return must_choose(topology, bytes(size_bytes)).predicted_ns;
  };
  CHECK(predicted_with(20'000'000'000, 4 << 20) < predicted_with(kNever, 4 << 20) * 3 / 4);
  CHECK(predicted_with(6'000'000'000, 4 << 20) > predicted_with(20'000'000'000, 4 << 20));
  CHECK(predicted_with(1'000'000'000, 4 << 20) == predicted_with(kNever, 4 << 20));
  CHECK(predicted_with(20'000'000'000, 40 << 10) == predicted_with(kNever, 40 << 10));
}

TEST_CASE("pulls are predicted of hosts that try them, and of no others") {
  auto predicted_where = [](bool one, bool other, uint64_t size_bytes) {
    Topology topology = test::make_topology(2, 2);
    for (TopologyHost& host : topology.hosts) {
      Costs& costs = host.inventory.costs;
      costs.slot_store_bytes_per_s.value = costs.slot_load_bytes_per_s.value = 5'200'000'000;
      costs.tcp_bytes_per_s.value = costs.tcp_both_bytes_per_s.value = 1'000'000'000'000;
      host.network_bytes_per_s = {1'000'000'000'000, Origin::kProbe};
      bool tries = &host == &topology.hosts[0] ? one : other;
      costs.pull_bytes_per_s = {20'000'000'000, tries ? Origin::kProbe : Origin::kDefault};
    }
    Request request = bytes(size_bytes);
    request.collective = TUTTI_ALL_GATHER;
    return predicted(must_choose(topology, request), "direct");
  };
  constexpr uint64_t kBytes = 64 << 20;
  CHECK(predicted_where(true, true, kBytes) < predicted_where(false, false, kBytes));
  // The other host's ranks are as late as ever.
  CHECK(predicted_where(true, false, kBytes) == predicted_where(false, false, kBytes));
}

TEST_CASE("a root copies its own block out of place, a broadcast's all of it") {
  constexpr uint64_t kBytes = 64 << 10;
  Topology topology = test::make_topology(1, 2);
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.cached_copy_bytes_per_s.value = 1'000'000'000;  // a nanosecond each
  costs.slot_store_bytes_per_s.value = costs.slot_load_bytes_per_s.value = 200'000'000'000;
  auto about = [](uint64_t ns) { return Catch::Matchers::WithinRel(static_cast<double>(ns), 0.02); };
  // A half of the bytes is the root's, the other half comes or goes.
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_GATHER, kBytes)), about(kBytes));
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_SCATTER, kBytes)), about(kBytes));
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_BROADCAST, kBytes)), about(2 * kBytes));
}

// One host with a second-level cache of 1 MiB for each of two ranks, and a last level of 32 MiB for both.
Topology with_caches() {
  Topology topology = test::make_topology(1, 2, 2);
  topology.hosts[0].inventory.caches = {{2, 1 << 20, 2, 1}, {3, 32 << 20, 1, 2}};
  return topology;
}

TEST_CASE("what fits into the second-level cache is copied from there, as is what a broadcast's root copies twice") {
  Topology topology = with_caches();
  Costs& costs = topology.hosts[0].inventory.costs;
  // Picoseconds for a byte: 10, 100, and of a slot, beside buffers in the last level, 100.
  costs.cached_copy_bytes_per_s.value = 100'000'000'000;
  costs.last_level_copy_bytes_per_s.value = 10'000'000'000;
  costs.slot_store_bytes_per_s.value = costs.slot_load_bytes_per_s.value = 10'000'000'000;
  auto about = [](uint64_t size_bytes, uint64_t ps_per_byte) {
    return Catch::Matchers::WithinRel(static_cast<double>(size_bytes * ps_per_byte) / 1000, 0.05);
  };
  constexpr uint64_t kSmall = 256 << 10, kLarge = 4 << 20;
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_BROADCAST, kSmall)), about(kSmall, 55 + 10));
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_BROADCAST, kLarge)), about(kLarge, 100 + 55));
  // One block each.
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_SCATTER, kSmall)), about(kSmall / 2, 55 + 10));
  CHECK_THAT(static_cast<double>(predicted_of(topology, TUTTI_SCATTER, kLarge)), about(kLarge / 2, 100 + 100));
}

TEST_CASE("a gather's ranks fill the last level with less than those that all have all blocks") {
  auto predicted_with = [](uint64_t memory_bytes_per_s, Collective collective) {
    Topology topology = with_caches();
    Costs& costs = topology.hosts[0].inventory.costs;
    costs.copy_bytes_per_s.value = costs.memory_bytes_per_s.value = memory_bytes_per_s;
    topology.hosts[0].inventory.caches[1].size_bytes = 24 << 20;
    return predicted_of(topology, collective, 8 << 20);
  };
  constexpr uint64_t kSlow = 2'000'000'000, kQuick = 20'000'000'000;
  CHECK(predicted_with(kSlow, TUTTI_GATHER) == predicted_with(kQuick, TUTTI_GATHER));
  CHECK(predicted_with(kSlow, TUTTI_ALL_GATHER) > predicted_with(kQuick, TUTTI_ALL_GATHER));
}

TEST_CASE("what a root has of all hosts' blocks is its own host's caches to hold, and others hold one") {
  constexpr int kRoot = 5;
  auto predicted_with = [](uint64_t size_bytes, auto&& set_root, auto&& set_other) {
    Topology topology = test::make_topology(16, 1, 2);
    for (TopologyHost& host : topology.hosts) {
      host.inventory.caches = {{2, 1 << 20, 2, 1}, {3, 32 << 20, 1, 2}};
      host.network_bytes_per_s = {1'000'000'000'000, Origin::kProbe};
      Costs& costs = host.inventory.costs;
      &host == &topology.hosts[kRoot] ? set_root(costs) : set_other(costs);
    }
    Request request = bytes(size_bytes);
    request.collective = TUTTI_GATHER;
    request.root = kRoot;
    return predicted(must_choose(topology, request), "direct");
  };
  auto nothing = [](Costs&) {};
  auto memory = [](uint64_t bytes_per_s) {
    return [bytes_per_s](Costs& costs) {
      costs.copy_bytes_per_s.value = bytes_per_s;
      costs.memory_bytes_per_s.value = 2 * bytes_per_s;
    };
  };
  auto last_level = [](uint64_t bytes_per_s) {
    return [bytes_per_s](Costs& costs) { costs.last_level_copy_bytes_per_s.value = bytes_per_s; };
  };
  constexpr uint64_t kLarge = 128 << 20, kOfSmallBlocks = 4 << 20;
  CHECK(predicted_with(kLarge, memory(2'000'000'000), nothing) >
        predicted_with(kLarge, memory(20'000'000'000), nothing));
  CHECK(predicted_with(kLarge, nothing, memory(2'000'000'000)) ==
        predicted_with(kLarge, nothing, memory(20'000'000'000)));
  CHECK(predicted_with(kOfSmallBlocks, nothing, last_level(10'000'000)) ==
        predicted_with(kOfSmallBlocks, nothing, last_level(10'000'000'000)));
}

TEST_CASE("where a broadcast is pulled its root finds nothing in its second-level cache") {
  Topology topology = test::make_topology(1, 4, 2);
  topology.hosts[0].inventory.caches = {{2, 1 << 20, 2, 1}, {3, 64 << 20, 1, 2}};
  Costs& costs = topology.hosts[0].inventory.costs;
  // Picoseconds for a byte: 10, 100, to pull 100, and of a slot 1000.
  costs.cached_copy_bytes_per_s.value = 100'000'000'000;
  costs.last_level_copy_bytes_per_s.value = 10'000'000'000;
  costs.slot_store_bytes_per_s = costs.slot_load_bytes_per_s = {1'000'000'000, Origin::kProbe};
  costs.pull_bytes_per_s = {10'000'000'000, Origin::kProbe};
  costs.pull_ns.value = 1;
  // Four copies on two processors.
  constexpr uint64_t kBytes = 4 << 20;
  double ns = static_cast<double>(predicted_of(topology, TUTTI_BROADCAST, kBytes));
  CHECK_THAT(ns, Catch::Matchers::WithinRel(kBytes * 0.1 * 4 / 2, 0.05));
}

TEST_CASE("only who sends and receives nothing is ahead, in shared memory and over sockets") {
  Topology topology = test::make_topology(1, 2);
  uint64_t latency_ns = topology.hosts[0].inventory.costs.cache_line_ns.value;
  CHECK(predicted_by(topology, TUTTI_BROADCAST, "direct", 64) < latency_ns + 25);
  // An all-reduce has the same hops, and each rank one message more, whose bytes cost next to nothing here.
  Costs& costs = topology.hosts[0].inventory.costs;
  for (Figure* figure : {&costs.cached_copy_bytes_per_s, &costs.cached_bytes_per_s,
                         &costs.small_slot_store_bytes_per_s, &costs.small_slot_load_bytes_per_s}) {
    figure->value = 1'000'000'000'000;
  }
  for (uint64_t size_bytes : {64, 1024}) {
    uint64_t all_reduce_ns = predicted_by(topology, TUTTI_ALL_REDUCE, "direct_two_shot", size_bytes);
    uint64_t reduce_ns = predicted_by(topology, TUTTI_REDUCE, "direct_two_shot", size_bytes);
    CHECK(reduce_ns <= all_reduce_ns);
    CHECK(reduce_ns + 30 > all_reduce_ns);
  }
  Topology sockets = topology;
  sockets.forced_transport = "tcp";
  CHECK(predicted_by(sockets, TUTTI_REDUCE, "direct_two_shot", 64) <=
        predicted_by(sockets, TUTTI_ALL_REDUCE, "direct_two_shot", 64));
  Topology rdma = test::with_rdma(2);
  CHECK(predicted_by(rdma, TUTTI_BROADCAST, "direct", 64) > rdma.link(0, 1).latency_ns.value + 25);
}

TEST_CASE("ranks of one host that are made to use a network have one worker, as those of several hosts") {
  Topology topology = test::make_topology(1, 4);
  CHECK(workers_of(topology, {}) == 2);
  for (const char* transport : {"tcp", "verbs"}) {
    topology.forced_transport = transport;
    CHECK(workers_of(topology, {}) == 1);
  }
}

TEST_CASE("slices are shares of a core's cache, the largest where both ends of a socket are on one host") {
  auto slice_bytes = [](int hosts, const std::string& transport, uint64_t cache_bytes, uint64_t slot_bytes,
                        int nranks = 2, Collective collective = TUTTI_ALL_REDUCE) {
    Topology topology = test::make_topology(hosts, nranks / hosts);
    topology.forced_transport = transport;
    for (TopologyHost& host : topology.hosts) host.inventory.caches = {{2, cache_bytes, 2, 1}};
    Tuning tuning;
    tuning.algorithm = collective == TUTTI_ALL_REDUCE ? "direct_two_shot" : "direct";
    tuning.max_slice_bytes = slot_bytes;
    Request request = bytes(64 << 20);
    request.collective = collective;
    if (has_root(collective)) request.root = 0;
    return must_choose(topology, request, tuning).plan.shape().slice_bytes;
  };
  constexpr uint64_t kKiB = 1024;
  for (int nranks : {2, 3, 4}) CHECK(slice_bytes(1, "", 1024 * kKiB, 512 * kKiB, nranks) == 256 * kKiB);
  CHECK(slice_bytes(1, "", 512 * kKiB, 512 * kKiB) == 128 * kKiB);
  CHECK(slice_bytes(1, "", 256 * kKiB, 512 * kKiB) == 64 * kKiB);
  CHECK(slice_bytes(1, "", 256 * kKiB, 512 * kKiB, 5) == 64 * kKiB);
  CHECK(slice_bytes(1, "", 1024 * kKiB, 512 * kKiB, 2, TUTTI_REDUCE_SCATTER) == 256 * kKiB);
  CHECK(slice_bytes(1, "", 1024 * kKiB, 512 * kKiB, 5) == 128 * kKiB);
  CHECK(slice_bytes(1, "", 1024 * kKiB, 512 * kKiB, 2, TUTTI_BROADCAST) == 128 * kKiB);
  CHECK(slice_bytes(2, "tcp", 1024 * kKiB, 512 * kKiB) == 128 * kKiB);
  CHECK(slice_bytes(1, "tcp", 1024 * kKiB, 512 * kKiB) == 512 * kKiB);
  CHECK(slice_bytes(1, "tcp", 1024 * kKiB, 256 * kKiB) == 256 * kKiB);
  CHECK(slice_bytes(1, "tcp", 4096 * kKiB, 1024 * kKiB) == 1024 * kKiB);
  CHECK(slice_bytes(1, "tcp", 512 * kKiB, 512 * kKiB) == 256 * kKiB);
}
}  // namespace tutti
