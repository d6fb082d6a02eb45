#include "core/thresholds.h"

#include <catch2/catch.hpp>

using namespace tutti;

namespace {

// `nranks` ranks on one host with `cpus` processors; `sharing` of them behind each last-level cache (0: all).
Topology one_host(int nranks, int cpus, const Costs& costs = {}, int sharing = 0) {
  if (sharing == 0) sharing = cpus;
  Inventory host;
  host.identity.boot_id = "test";
  host.cpu.logical_cpus = cpus;
  for (int cpu = 0; cpu < cpus; ++cpu) host.cpu.allowed_cpus.push_back(cpu);
  host.caches = {{2, 1 << 20, cpus, 1}, {3, 32 << 20, cpus / sharing, sharing}};
  host.costs = costs;
  return single_host(host, nranks);
}

Costs measured(uint64_t wake_ns) {
  Costs costs;
  costs.wake_ns = {wake_ns, Origin::kProbe};
  costs.pull_bytes_per_s.origin = Origin::kProbe;
  return costs;
}

uint64_t streaming_min(int nranks, int cpus, uint64_t bytes, int sharing = 0) {
  Costs costs;
  costs.streaming_bytes = {bytes, Origin::kProbe};
  return data_path_for(one_host(nranks, cpus, costs, sharing), 0).streaming_min_bytes;
}

WaitPolicy waits(int nranks, int cpus, uint64_t wake_ns = 20'000, const Config& config = {}) {
  return wait_policy_for(one_host(nranks, cpus, measured(wake_ns)), 0, config);
}

constexpr uint64_t kMost = 1'000'000'000'000'000;  // of a figure in a file
constexpr uint64_t kNever = UINT64_MAX;

}  // namespace

TEST_CASE("unmeasured hosts never try to pull, and stream from a size that suits an ordinary server") {
  DataPathOptions options = data_path_for(one_host(4, 8), 0);
  CHECK_FALSE(options.messages_try_pulls);
  CHECK_FALSE(options.collectives_try_pulls);
  CHECK(data_path_for(one_host(4, 8, measured(1)), 0).messages_try_pulls);
  CHECK(options.streaming_min_bytes == 4 << 20);
  Costs slow;
  slow.copy_bytes_per_s.value = 8'000'000'000;
  CHECK(data_path_for(one_host(2, 2, slow), 0).memory_ns_per_byte == 0.125F);
}

TEST_CASE("collectives try no pulls where both of a slot's copies together take less than one") {
  auto are_tried = [](uint64_t store, uint64_t load, uint64_t pull, uint64_t pull_ns = 1'000) {
    Costs costs = measured(1);
    costs.slot_store_bytes_per_s = {store, Origin::kProbe};
    costs.slot_load_bytes_per_s = {load, Origin::kProbe};
    costs.pull_bytes_per_s.value = pull;
    costs.pull_ns.value = pull_ns;
    CHECK(data_path_for(one_host(2, 2, costs), 0).messages_try_pulls);
    return data_path_for(one_host(2, 2, costs), 0).collectives_try_pulls;
  };
  constexpr uint64_t kGb = 1'000'000'000;
  CHECK_FALSE(are_tried(56 * kGb, 46 * kGb, 14 * kGb));
  CHECK(are_tried(20 * kGb, 20 * kGb, 14 * kGb));
  CHECK_FALSE(are_tried(20 * kGb, 20 * kGb, 14 * kGb, 40'000));
  CHECK(are_tried(kMost, 1, 14 * kGb));
  Costs no_pulls;
  no_pulls.slot_store_bytes_per_s = no_pulls.slot_load_bytes_per_s = {kGb, Origin::kProbe};
  CHECK_FALSE(data_path_for(one_host(2, 2, no_pulls), 0).collectives_try_pulls);
  Costs no_slots = measured(1);
  no_slots.pull_bytes_per_s.value = kGb;
  CHECK(data_path_for(one_host(2, 2, no_slots), 0).collectives_try_pulls);
}

TEST_CASE("a message is read where it lies from a smaller size on where its sender waits on a processor of its own") {
  CHECK(data_path_for(one_host(2, 2, measured(1)), 0).lent_min_bytes == 32 << 10);
  CHECK(data_path_for(one_host(3, 2, measured(1)), 0).lent_min_bytes == 64 << 10);
}

TEST_CASE("shared buffers are used in place from a smaller size on where readers have processors of their own") {
  CHECK(data_path_for(one_host(2, 2), 0).windows_min_bytes == 4 << 10);
  CHECK(data_path_for(one_host(3, 2), 0).windows_min_bytes == 32 << 10);
}

TEST_CASE("where stores past the caches never pay off nothing is stored so, however many ranks share a cache") {
  CHECK(streaming_min(8, 8, kNeverStreams, 8) == kNever);
}

TEST_CASE("ranks that share a cache stream from smaller sizes on") {
  constexpr uint64_t kAlone = 16 << 20;
  CHECK(streaming_min(1, 8, kAlone) == kAlone);
  CHECK(streaming_min(2, 8, kAlone) == kAlone / 2);
  CHECK(streaming_min(8, 8, kAlone) == kAlone / 8);
  CHECK(streaming_min(8, 8, kAlone, 4) == kAlone / 4);  // two caches, four ranks each
  CHECK(streaming_min(2, 8, kAlone, 4) == kAlone);
  CHECK(streaming_min(1000, 8, kAlone) == 1 << 20);     // a core's own caches are never bypassed
}

TEST_CASE("a wait spins for as long as the wake-up takes that a sleep would cost") {
  CHECK(waits(2, 2).spin_ns == 20'000);
  CHECK(waits(2, 2, 30'000).spin_ns == 30'000);
  CHECK(waits(2, 2).yield_ns > waits(2, 2).spin_ns);
}

TEST_CASE("with more ranks than cores a wait never spins, and yields for longer") {
  CHECK(waits(8, 2).spin_ns == 0);
  CHECK(waits(8, 2).yield_ns == 4 * waits(2, 2).yield_ns);
  CHECK(waits(3, 2).spin_ns == 0);
}

TEST_CASE("the options for waiting win over the measured costs") {
  Config config;
  config.spin_us = 0;
  CHECK(waits(2, 2, 20'000, config).spin_ns == 0);
  CHECK(waits(2, 2, 20'000, config).yield_ns == waits(2, 2).yield_ns);
  config = Config();
  config.spin_us = 7;
  config.yield_us = 3;
  CHECK(waits(8, 2, 20'000, config).spin_ns == 7'000);
  CHECK(waits(8, 2, 20'000, config).yield_ns == 3'000);
}

TEST_CASE("absurd figures in a file give sane waits and sizes") {
  for (uint64_t wake_ns : {uint64_t{1}, kMost}) {
    WaitPolicy policy = waits(2, 2, wake_ns);
    CHECK(policy.spin_ns >= 1'000);
    CHECK(policy.spin_ns <= 1'000'000);
    CHECK(policy.yield_ns <= 10'000'000);
  }
  for (uint64_t bytes : {uint64_t{1}, kMost}) CHECK(streaming_min(2, 2, bytes) >= 1 << 20);
}

TEST_CASE("each rank goes by its own host") {
  Topology topology = one_host(2, 2, measured(20'000));
  Topology other = one_host(2, 1);
  topology.hosts.push_back(other.hosts.front());
  topology.hosts.back().ranks = {2, 3};
  for (TopologyRank rank : other.ranks) {
    rank.host = 1;
    topology.ranks.push_back(rank);
  }
  CHECK(wait_policy_for(topology, 0, {}).spin_ns == 20'000);
  CHECK(wait_policy_for(topology, 2, {}).spin_ns == 0);
  CHECK(data_path_for(topology, 1).messages_try_pulls);
  CHECK_FALSE(data_path_for(topology, 3).messages_try_pulls);
}

TEST_CASE("payloads go through twice a core's second-level cache, which the peers of a host share") {
  CHECK(data_path_for(one_host(2, 2), 0).spread.own_bytes == 32 << 20);
  DataPathOptions two = data_path_for(one_host(2, 2), 0);
  CHECK(two.spread.streaming_bytes == two.streaming_min_bytes);
  CHECK(data_path_for(one_host(2, 2), 0).spread.bytes == 2 << 20);
  CHECK(data_path_for(one_host(5, 8), 0).spread.bytes == 512 << 10);
  CHECK(data_path_for(one_host(1, 8), 0).spread.bytes == 2 << 20);
  Topology unknown = one_host(2, 2);
  unknown.hosts.front().inventory.caches.clear();
  CHECK(data_path_for(unknown, 0).spread.bytes == 0);
  CHECK(data_path_for(unknown, 0).spread.own_bytes == UINT64_MAX);
}

TEST_CASE("the slots of ranks that take turns fit into the last level of caches, but are never less than two") {
  constexpr uint64_t kSlot = 256 << 10;
  auto slots_of = [](int ranks, int cpus, uint64_t last_level_bytes) {
    Topology topology = one_host(ranks, cpus);
    topology.hosts.front().inventory.caches.back().size_bytes = last_level_bytes;
    return mapped_slots_for(topology, 0, kSlot);
  };
  CHECK(slots_of(2, 2, 32 << 20) == 0);
  CHECK(slots_of(4, 2, 32 << 20) == 10);
  CHECK(slots_of(8, 2, 32 << 20) == 2);
  CHECK(slots_of(8, 2, 64 << 20) == 4);
  CHECK(slots_of(64, 2, 32 << 20) == 2);
  StreamLayout layout{.nranks = 8, .channels = 2};
  CHECK(layout.slots_in_use(0, true) == 4);
  layout.mapped_slots = 2;
  CHECK(layout.slots_in_use(0, true) == 2);
  CHECK(layout.slots_in_use(0, false) == 4);
  CHECK(layout.slots_in_use(layout.direct_channel(), true) == 16);
  layout.mapped_slots = 10;
  CHECK(layout.slots_in_use(1, true) == 4);
}

TEST_CASE("ranks that take turns on a processor use few places of their slots") {
  for (int ranks : {3, 4, 8}) CHECK(data_path_for(one_host(ranks, 2), 0).spread.bytes == 0);
}
