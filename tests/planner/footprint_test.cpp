// What calls touch of their callers' buffers, and what predictions make of it.
#include "planner/footprint.h"

#include <catch2/catch.hpp>

#include "planner/choices.h"
#include "planner/rates.h"
#include "planner/topologies.h"

namespace tutti {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGBps = 1'000'000'000;

struct Touched {
  uint64_t all, most;
  bool half_by_one;
};

void check(const Footprint& footprint, const Touched& expected) {
  CHECK(footprint.all_bytes == expected.all * kMiB);
  CHECK(footprint.most_bytes == expected.most * kMiB);
  CHECK(footprint.half_by_one == expected.half_by_one);
}

// Of 8 MiB.
Footprint among(const RanksOfHost& ranks, Collective collective, bool in_place = false) {
  return footprint_of(collective, 8 * kMiB, in_place, ranks);
}

// Every way to copy takes a nanosecond for so many bytes, in caches that hold everything, and turns nothing.
Topology plain_host(int nranks, int cpus, uint64_t bytes_per_ns) {
  Topology topology = test::make_topology(1, nranks, cpus);
  topology.hosts[0].inventory.caches = {{2, uint64_t{1} << 40, cpus, 1}};
  Costs& costs = topology.hosts[0].inventory.costs;
  for (Figure Costs::*rate : {&Costs::copy_bytes_per_s, &Costs::cached_copy_bytes_per_s,
                              &Costs::last_level_copy_bytes_per_s, &Costs::slot_store_bytes_per_s,
                              &Costs::slot_load_bytes_per_s}) {
    (costs.*rate).value = bytes_per_ns * kGBps;
  }
  costs.memory_bytes_per_s.value = 1000 * kGBps;
  costs.yield_ns.value = 1;
  return topology;
}

auto about(double ns) { return Catch::Matchers::WithinRel(ns, 0.03); }

}  // namespace

TEST_CASE("a footprint has the buffers of the ranks of a host, and in place once what they share") {
  const RanksOfHost four{.all = 4, .local = 4};
  check(among(four, TUTTI_ALL_REDUCE), {64, 16, false});
  check(among(four, TUTTI_ALL_REDUCE, true), {32, 8, false});
  check(among(four, TUTTI_ALL_TO_ALL_V), {64, 16, false});
  check(among(four, TUTTI_ALL_GATHER), {40, 10, false});
  check(among(four, TUTTI_ALL_GATHER, true), {32, 8, false});
  check(among(four, TUTTI_REDUCE_SCATTER_V), {40, 10, false});
}

TEST_CASE("a footprint is the root's where that has at least half of it, and others are there") {
  const RanksOfHost four{.all = 4, .local = 4, .has_root = true};
  check(among(four, TUTTI_BROADCAST), {40, 16, false});
  check(among(four, TUTTI_REDUCE), {40, 16, false});
  check(among(four, TUTTI_GATHER), {16, 10, true});
  check(among(four, TUTTI_SCATTER_V), {16, 10, true});
  check(among({.all = 2, .local = 2, .has_root = true}, TUTTI_BROADCAST), {24, 16, true});
  check(among({.all = 2, .local = 2, .has_root = true}, TUTTI_BROADCAST, true), {16, 8, true});
  check(among({.all = 1, .local = 1, .has_root = true}, TUTTI_BROADCAST), {16, 16, false});
  // On a host without it others have outputs, or a block.
  check(among({.all = 8, .local = 4}, TUTTI_BROADCAST), {32, 8, false});
  check(among({.all = 8, .local = 4}, TUTTI_GATHER), {4, 1, false});
  check(among({.all = 8, .local = 1, .has_root = true}, TUTTI_GATHER), {9, 9, false});
}

TEST_CASE("what several ranks of a host get is stored once for all of them") {
  Topology topology = plain_host(4, 4, 1000);
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.slot_store_bytes_per_s.value = costs.small_slot_store_bytes_per_s.value = 1 * kGBps;
  constexpr uint64_t kBytes = 4 * kMiB;
  for (auto [collective, stored] : {std::pair{TUTTI_ALL_GATHER, kBytes / 4}, std::pair{TUTTI_BROADCAST, kBytes}}) {
    Request request = bytes(kBytes);
    request.collective = collective;
    request.root = has_root(collective) ? 0 : -1;
    CHECK_THAT(static_cast<double>(predicted(must_choose(topology, request), "direct")),
               about(static_cast<double>(stored)));
  }
}

TEST_CASE("a root that has more to do than the others shares its processor with as many of them as these do") {
  Topology topology = plain_host(8, 2, 1);
  Request request = bytes(8 * kMiB);
  request.collective = TUTTI_GATHER;
  request.root = 5;
  // It copies all blocks, and three others one each meanwhile.
  CHECK_THAT(static_cast<double>(predicted(must_choose(topology, request), "direct")), about(8 * kMiB + 3 * kMiB));
}

TEST_CASE("where all have as much to do processors are busy alike, also with one rank more on some") {
  for (int nranks : {3, 4, 5}) {
    Request request = bytes(8 * kMiB);
    request.collective = TUTTI_ALL_TO_ALL;
    double each = (2 - 1.0 / nranks) * 8 * kMiB;  // into slots and out of them, but one block once
    CHECK_THAT(static_cast<double>(predicted(must_choose(plain_host(nranks, 2, 1), request), "direct")),
               about(nranks * each / 2));
  }
}

TEST_CASE("a root's buffers fill its own last-level cache, however many others there are") {
  Topology topology = test::make_topology(1, 8, 8);
  topology.hosts[0].inventory.caches = {{2, 1 << 20, 8, 1}, {3, 32 << 20, 8, 1}};
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.last_level_copy_bytes_per_s.value = costs.cached_copy_bytes_per_s.value = 100 * kGBps;
  costs.slot_store_bytes_per_s.value = costs.slot_load_bytes_per_s.value = 100 * kGBps;
  costs.memory_bytes_per_s.value = 1000 * kGBps;
  auto gather_ns = [&](uint64_t size_bytes, uint64_t memory_bytes_per_s) {
    costs.copy_bytes_per_s.value = memory_bytes_per_s;
    Request request = bytes(size_bytes);
    request.collective = TUTTI_GATHER;
    request.root = 3;
    return predicted(must_choose(topology, request), "direct");
  };
  CHECK(gather_ns(16 * kMiB, kGBps) == gather_ns(16 * kMiB, 10 * kGBps));
  CHECK(gather_ns(64 * kMiB, kGBps) > 2 * gather_ns(64 * kMiB, 10 * kGBps));  // all have 16 MiB in the mean
}

TEST_CASE("ranks that take turns on a processor have its own cache together") {
  Topology topology = plain_host(4, 4, 100);
  topology.hosts[0].inventory.caches = {{2, 8 * kMiB, 4, 1}, {3, 1024 * kMiB, 1, 4}};
  const Footprint footprint{.all_bytes = 16 * kMiB, .most_bytes = 4 * kMiB, .half_by_one = false};
  CHECK(residence_of(topology.hosts[0], footprint).l2 == Residence::kWhole);
  topology.hosts[0].inventory.cpu.logical_cpus = 2;
  CHECK(residence_of(topology.hosts[0], footprint).l2 / 100 == Residence::kWhole / 300);  // two thirds are held
}

TEST_CASE("what is pulled out of the last level takes half of what a copy takes longer there") {
  Topology topology = plain_host(2, 2, 1000);
  topology.hosts[0].inventory.caches = {{2, 2 * kMiB, 2, 1}, {3, 1024 * kMiB, 1, 2}};
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.slot_store_bytes_per_s.value = costs.slot_load_bytes_per_s.value = kGBps / 10;
  costs.pull_bytes_per_s = {kGBps, Origin::kProbe};
  costs.last_level_copy_bytes_per_s.value = 2 * kGBps;
  Request request = bytes(8 * kMiB);
  request.collective = TUTTI_GATHER;
  request.root = 0;
  // A half of it is the root's own.
  auto gather_ns = [&] { return static_cast<double>(predicted(must_choose(topology, request), "direct")); };
  CHECK_THAT(gather_ns(), about(4 * kMiB * 0.5 + 4 * kMiB * (1 + 0.5 / 2)));
  // A cache that did not hold what was calibrated has the last level in the figure.
  topology.hosts[0].inventory.caches[0].size_bytes = kMiB;
  CHECK_THAT(gather_ns(), about(4 * kMiB * 0.5 + 4 * kMiB * 1.0));
}

TEST_CASE("a host's memory bounds calls that its caches do not hold, however fast its processors are") {
  Topology topology = plain_host(2, 2, 1000);
  Costs& costs = topology.hosts[0].inventory.costs;
  costs.reduce_bytes_per_s.value = costs.cached_bytes_per_s.value = costs.last_level_bytes_per_s.value = 1000 * kGBps;
  costs.copy_bytes_per_s.value = 1000 * kGBps;
  costs.memory_bytes_per_s.value = 300 * kGBps;
  auto all_reduce_ns = [&](uint64_t cache_bytes, uint64_t size_bytes) {
    topology.hosts[0].inventory.caches = {{2, 1, 2, 1}, {3, cache_bytes, 1, 2}};
    return static_cast<double>(must_choose(topology, bytes(size_bytes)).predicted_ns);
  };
  // Input and output of both, two thirds of which are copied in the same time.
  constexpr uint64_t kBytes = 16 * kMiB;
  CHECK_THAT(all_reduce_ns(1, kBytes), about(kBytes * 4 / 1.5 / 300));
  CHECK_THAT(all_reduce_ns(kBytes * 4 * 5 / 4 / 3, kBytes), about(kBytes * 4 / 1.5 / 300));
  CHECK(all_reduce_ns(kBytes * 4 * 5 / 4, kBytes) < kBytes * 4 / 1.5 / 300 / 2);
  // Of a large cache, most of which others use, 128 MiB count.
  CHECK_THAT(all_reduce_ns(1024 * kMiB, 128 * kMiB), about(128 * kMiB * 4 / 1.5 / 300));
  topology.hosts[0].inventory.caches.pop_back();
  CHECK_THAT(must_choose(topology, bytes(kBytes)).reason, Catch::Matchers::Contains("% memory traffic"));
}

}  // namespace tutti
