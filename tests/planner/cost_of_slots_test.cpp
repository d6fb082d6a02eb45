// What predictions count of payloads that pass between ranks of a host: lines, slots, turns.
#include <catch2/catch.hpp>

#include <cmath>

#include "planner/choices.h"
#include "planner/topologies.h"

namespace tutti {

TEST_CASE("in an exchange the first line of a payload comes half a way behind that of its message") {
  auto predicted_with = [](uint64_t line_ns, uint64_t size_bytes) {
    Topology topology = test::make_topology(1, 2);
    topology.hosts[0].inventory.costs.cache_line_ns.value = line_ns;
    return predicted_of(topology, TUTTI_ALL_TO_ALL, size_bytes);
  };
  CHECK(predicted_with(3000, 1024) - predicted_with(1000, 1024) == 3000);
  CHECK(predicted_with(3000, 128) - predicted_with(1000, 128) == 3000);
  CHECK(predicted_with(3000, 64) - predicted_with(1000, 64) == 2000);  // with its message, in one line
}

TEST_CASE("partial results of narrow floats are wider, and need a payload's line at smaller sizes") {
  auto added_ns = [](Datatype datatype, uint64_t size_bytes) {
    auto predicted_with = [&](uint64_t line_ns) {
      Topology topology = test::make_topology(1, 4);
      topology.hosts[0].inventory.costs.cache_line_ns.value = line_ns;
      Request request{
          .collective = TUTTI_REDUCE_SCATTER, .datatype = datatype, .count = size_bytes / size_of(datatype)};
      return predicted(must_choose(topology, request), "ring");
    };
    return predicted_with(3000) - predicted_with(1000);
  };
  // Blocks of 32 bytes go three hops with their messages, but not as floats.
  CHECK(added_ns(TUTTI_INT32, 128) == 3 * 2000);
  CHECK(added_ns(TUTTI_BFLOAT16, 128) == 3 * 3000);
  CHECK(added_ns(TUTTI_INT32, 256) == 3 * 3000);
}

TEST_CASE("in an exchange a payload's last stores are waited for, but not in turns or where all flows one way") {
  constexpr uint64_t kSettleNs = 102'400;
  auto added = [](Collective collective, uint64_t size_bytes, uint64_t cpus, uint64_t added_ns = 102'400) {
    auto predicted_with = [&](uint64_t settle_ns) {
      Topology topology = test::make_topology(1, 2, static_cast<int>(cpus));
      topology.hosts[0].inventory.costs.slot_settle_ns.value = settle_ns;
      return predicted_of(topology, collective, size_bytes);
    };
    return predicted_with(added_ns) - predicted_with(0);
  };
  // From 1 KiB on; the larger a payload, the more of them have the calibrated rates.
  CHECK(added(TUTTI_ALL_TO_ALL, 1 << 10, 2) == kSettleNs / 2 * 127 / 128);
  CHECK(added(TUTTI_ALL_TO_ALL, 2 << 10, 2) == kSettleNs * 63 / 64);
  CHECK(added(TUTTI_ALL_TO_ALL, 64 << 10, 2) == kSettleNs / 2);
  CHECK(added(TUTTI_ALL_TO_ALL, 128 << 10, 2) == 0);
  CHECK(added(TUTTI_ALL_TO_ALL, 16, 2) == 0);  // in the message's line
  CHECK(added(TUTTI_ALL_TO_ALL, 2 << 10, 1) == 0);
  CHECK(added(TUTTI_BROADCAST, 2 << 10, 2) == 0);
  CHECK(added(TUTTI_ALL_TO_ALL, 8 << 10, 2, kMostOfAFigure) == kMostOfAFigure / 16 * 15);
}

TEST_CASE("what is pulled has no stores to wait for") {
  auto added = [](Origin pulls) {
    auto predicted_with = [&](uint64_t settle_ns) {
      Topology topology = test::make_topology(1, 4);
      Costs& costs = topology.hosts[0].inventory.costs;
      costs.slot_store_bytes_per_s.value = costs.slot_load_bytes_per_s.value = 5'200'000'000;
      costs.pull_bytes_per_s = {20'000'000'000, pulls};
      costs.slot_settle_ns.value = settle_ns;
      return predicted_by(topology, TUTTI_ALL_TO_ALL, "direct", 128 << 10);
    };
    return predicted_with(102'400) - predicted_with(0);
  };
  CHECK(added(Origin::kDefault) == 102'400 / 2);
  CHECK(added(Origin::kProbe) == 0);
}

TEST_CASE("where ranks take turns each fetches others' lines in its own, but not of what flows one way") {
  auto added = [](Collective collective, int nranks, int cpus, uint64_t size_bytes) {
    auto predicted_with = [&](uint64_t line_ns) {
      Topology topology = test::make_topology(1, nranks, cpus);
      topology.hosts[0].inventory.costs.cache_line_ns.value = line_ns;
      return predicted_of(topology, collective, size_bytes);
    };
    return predicted_with(14'000) - predicted_with(7'000);
  };
  // A hop, and of each other rank's message as much of a line as the share of ranks on the other processor.
  CHECK(added(TUTTI_ALL_TO_ALL, 8, 2, 64) == 7'000 + 8 / 2 * 7 * 4'000);
  CHECK(added(TUTTI_ALL_TO_ALL, 8, 2, 128 << 10) == 7'000 + 3'500 + 8 / 2 * 7 * 4'000);  // and a payload's first
  CHECK(added(TUTTI_BROADCAST, 8, 2, 64) == 7'000);
  CHECK(added(TUTTI_ALL_TO_ALL, 8, 1, 64) == 7'000);
}

TEST_CASE("what a reduction stores into a slot costs a copy beside near cores, and elsewhere one without its read") {
  constexpr uint64_t kBytes = 64 << 10;
  auto predicted_with = [](bool is_near, uint64_t store_bytes_per_s) {
    Topology topology = test::make_topology(1, 2);
    Inventory& host = topology.hosts[0].inventory;
    host.caches = {{2, 1 << 20, 64, 1}, {3, 32 << 20, is_near ? 1 : 2, 64}};
    host.costs.cache_line_ns = {50, Origin::kProbe};
    host.costs.cached_copy_bytes_per_s.value = 2'000'000'000;  // half a nanosecond each, and a half of that to read
    host.costs.slot_store_bytes_per_s.value = store_bytes_per_s;
    return static_cast<double>(predicted_by(topology, TUTTI_ALL_REDUCE, "direct_two_shot", kBytes));
  };
  auto saved = [&](uint64_t store_bytes_per_s) {
    return predicted_with(true, store_bytes_per_s) - predicted_with(false, store_bytes_per_s);
  };
  // Both halves go into a slot: of the input a copy, of the result what is said above.
  double slow = predicted_with(true, 1'000'000'000), slower = predicted_with(true, 500'000'000);
  CHECK_THAT(slower - slow, Catch::Matchers::WithinRel(kBytes * 1.0, 0.05));
  CHECK_THAT(saved(1'000'000'000), Catch::Matchers::WithinRel(kBytes / 2 * 0.25, 0.05));
  CHECK_THAT(saved(500'000'000), Catch::Matchers::WithinRel(kBytes / 2 * 0.25, 0.05));
}

TEST_CASE("copies into slots and out of them cost what each was measured to, of small messages as such") {
  constexpr uint64_t kSmall = 4 << 10, kLarge = 64 << 10;
  int nranks = 2, cpus = 64;
  bool is_near = false;
  auto predicted_with = [&](Figure Costs::*slower, Collective collective, uint64_t size_bytes) {
    Topology topology = test::make_topology(1, nranks, cpus);
    Costs& costs = topology.hosts[0].inventory.costs;
    if (is_near) topology.hosts[0].inventory.caches = {{.level = 3, .size_bytes = 32 << 20, .instances = 1}};
    costs.cache_line_ns.origin = Origin::kProbe;
    costs.cache_line_ns.value = 50;
    costs.cached_copy_bytes_per_s.value = 1'000'000'000'000;
    for (Figure* figure : {&costs.slot_store_bytes_per_s, &costs.slot_load_bytes_per_s,
                           &costs.small_slot_store_bytes_per_s, &costs.small_slot_load_bytes_per_s}) {
      figure->value = 100'000'000'000;
    }
    if (slower != nullptr) (costs.*slower).value = 1'000'000'000;  // a nanosecond each
    return static_cast<double>(predicted_of(topology, collective, size_bytes));
  };
  auto added = [&](Figure Costs::*slower, Collective collective, uint64_t size_bytes) {
    return predicted_with(slower, collective, size_bytes) - predicted_with(nullptr, collective, size_bytes);
  };
  auto all_of = [](uint64_t bytes) { return Catch::Matchers::WithinRel(static_cast<double>(bytes), 0.05); };
  CHECK_THAT(added(&Costs::small_slot_store_bytes_per_s, TUTTI_BROADCAST, kSmall), all_of(kSmall));
  CHECK_THAT(added(&Costs::small_slot_load_bytes_per_s, TUTTI_BROADCAST, kSmall), all_of(kSmall));
  CHECK_THAT(added(&Costs::slot_store_bytes_per_s, TUTTI_BROADCAST, kLarge), all_of(kLarge));
  CHECK_THAT(added(&Costs::slot_load_bytes_per_s, TUTTI_BROADCAST, kLarge), all_of(kLarge));
  // Both ranks do both, of a half.
  CHECK_THAT(added(&Costs::small_slot_store_bytes_per_s, TUTTI_ALL_TO_ALL, kSmall), all_of(kSmall / 2));
  CHECK_THAT(added(&Costs::slot_load_bytes_per_s, TUTTI_REDUCE_SCATTER, kLarge), all_of(kLarge / 2));
  // Beside near cores up to 16 KiB are small, elsewhere less than 8.
  constexpr uint64_t kBetween = 16 << 10;
  CHECK(added(&Costs::small_slot_store_bytes_per_s, TUTTI_BROADCAST, kBetween) == 0);
  is_near = true;
  CHECK_THAT(added(&Costs::small_slot_store_bytes_per_s, TUTTI_BROADCAST, kBetween), all_of(kBetween));
  CHECK_THAT(added(&Costs::slot_store_bytes_per_s, TUTTI_BROADCAST, 2 * kBetween), all_of(2 * kBetween));
  is_near = false;
  // What is small does not go by the others, and the other way round.
  CHECK(added(&Costs::small_slot_store_bytes_per_s, TUTTI_BROADCAST, kLarge) == 0);
  CHECK(added(&Costs::small_slot_load_bytes_per_s, TUTTI_REDUCE_SCATTER, kLarge) == 0);
  CHECK(added(&Costs::slot_store_bytes_per_s, TUTTI_BROADCAST, kSmall) == 0);
  CHECK(added(&Costs::slot_load_bytes_per_s, TUTTI_REDUCE_SCATTER, kSmall) == 0);
  // Its root loads what all others store.
  nranks = 4;
  CHECK_THAT(added(&Costs::slot_load_bytes_per_s, TUTTI_GATHER, kLarge), all_of(kLarge / 4 * 3));
  CHECK_THAT(added(&Costs::slot_store_bytes_per_s, TUTTI_SCATTER, kLarge), all_of(kLarge / 4 * 3));
  // With more ranks than processors calls of up to 64 KiB have as few places as small messages, and of the three other
  // ranks two are on the other processor.
  cpus = 2;
  CHECK_THAT(added(&Costs::small_slot_load_bytes_per_s, TUTTI_GATHER, kLarge), all_of(kLarge / 4 * 2));
  CHECK_THAT(added(&Costs::small_slot_store_bytes_per_s, TUTTI_SCATTER, kLarge), all_of(kLarge / 4 * 2));
  CHECK_THAT(added(&Costs::slot_load_bytes_per_s, TUTTI_GATHER, kLarge * 2), all_of(kLarge * 2 / 4 * 3));
  CHECK_THAT(added(&Costs::slot_store_bytes_per_s, TUTTI_SCATTER, kLarge * 2), all_of(kLarge * 2 / 4 * 3));
}

TEST_CASE("what all others get costs one copy into a slot for those of the host, from 256 B on") {
  auto stores = [](int hosts, int ranks_per_host, uint64_t size_bytes) {
    auto predicted_with = [&](uint64_t store_bytes_per_s) {
      Topology topology = test::make_topology(hosts, ranks_per_host);
      for (TopologyHost& host : topology.hosts) {
        host.network_bytes_per_s.value = 1'000'000'000'000;
        Costs& costs = host.inventory.costs;
        costs.cached_copy_bytes_per_s.value = 1'000'000'000'000;
        costs.slot_store_bytes_per_s.value = costs.small_slot_store_bytes_per_s.value = store_bytes_per_s;
      }
      return static_cast<double>(predicted(must_choose(topology, bytes(size_bytes)), "direct_one_shot"));
    };
    constexpr uint64_t kNanosecondEach = 1'000'000'000;
    double added_ns = predicted_with(kNanosecondEach) - predicted_with(100 * kNanosecondEach);
    return static_cast<int>(std::lround(added_ns / (0.99 * static_cast<double>(size_bytes))));
  };
  CHECK(stores(1, 2, 16 << 10) == 1);
  CHECK(stores(1, 4, 16 << 10) == 1);
  CHECK(stores(1, 8, 256) == 1);
  CHECK(stores(1, 4, 512 << 10) == 1);  // several slices
  CHECK(stores(2, 4, 16 << 10) == 1);
  CHECK(stores(1, 4, 128) == 3);
  CHECK(stores(2, 4, 128) == 3);
}

TEST_CASE("where ranks take turns a payload passes from one processor to another, and stays in the caches of that") {
  auto loads = [](int nranks, uint64_t size_bytes) {
    auto predicted_with = [&](uint64_t load_bytes_per_s) {
      Topology topology = test::make_topology(1, nranks, 2);
      Costs& costs = topology.hosts[0].inventory.costs;
      costs.cached_copy_bytes_per_s.value = costs.cached_bytes_per_s.value = 1'000'000'000'000;
      costs.small_slot_load_bytes_per_s.value = load_bytes_per_s;
      return static_cast<double>(predicted(must_choose(topology, bytes(size_bytes)), "direct_one_shot"));
    };
    constexpr uint64_t kNanosecondEach = 1'000'000'000;
    double added_ns = predicted_with(kNanosecondEach) - predicted_with(100 * kNanosecondEach);
    return static_cast<int>(std::lround(added_ns / (0.99 * static_cast<double>(size_bytes))));
  };
  // Each processor's ranks, a half of all, load what those of the other one have stored for each of them,
  CHECK(loads(4, 128) == 2 * 2);
  CHECK(loads(8, 128) == 4 * 4);
  // or for all of them, which comes to that processor once for each of their number.
  CHECK(loads(4, 16 << 10) == 2);
  CHECK(loads(8, 16 << 10) == 4);
}

TEST_CASE("on a host of one processor slots cost what its caches do") {
  auto predicted_with = [](uint64_t slot_bytes_per_s, uint64_t size_bytes, std::string_view algorithm) {
    Topology topology = test::make_topology(1, 4, 1);
    Costs& costs = topology.hosts[0].inventory.costs;
    costs.small_slot_store_bytes_per_s.value = costs.small_slot_load_bytes_per_s.value = slot_bytes_per_s;
    return predicted(must_choose(topology, bytes(size_bytes)), algorithm);
  };
  for (const char* algorithm : {"direct_one_shot", "direct_two_shot", "ring"}) {
    for (uint64_t size_bytes : {128, 16 << 10}) {
      uint64_t quick_ns = predicted_with(20'000'000'000, size_bytes, algorithm);
      CHECK(predicted_with(1'000'000'000, size_bytes, algorithm) <= quick_ns + 100);  // a byte of each payload
    }
  }
}

TEST_CASE("a result that is pulled comes no quicker than out of a slot") {
  auto predicted_with = [](Collective collective, uint64_t load_bytes_per_s) {
    Topology topology = test::make_topology(1, 2);
    Costs& costs = topology.hosts[0].inventory.costs;
    costs.slot_store_bytes_per_s = {100'000'000, Origin::kProbe};
    costs.slot_load_bytes_per_s = {load_bytes_per_s, Origin::kProbe};
    costs.pull_bytes_per_s = {20'000'000'000, Origin::kProbe};
    const char* algorithm = collective == TUTTI_ALL_REDUCE ? "direct_two_shot" : "direct";
    return static_cast<double>(predicted_by(topology, collective, algorithm, 1 << 20));
  };
  auto added = [&](Collective collective) {
    return predicted_with(collective, 1'000'000'000) - predicted_with(collective, 2'000'000'000);
  };
  CHECK_THAT(added(TUTTI_ALL_REDUCE), Catch::Matchers::WithinRel((1 << 19) * 0.5, 0.05));
  CHECK(added(TUTTI_ALL_TO_ALL) == 0);
}

}  // namespace tutti
