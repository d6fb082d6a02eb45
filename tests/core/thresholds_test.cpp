#include "core/thresholds.h"

#include <catch2/catch.hpp>
#include <climits>

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
  CHECK_FALSE(options.messages_try_halves);
  CHECK(data_path_for(one_host(4, 4, measured(1)), 0).messages_try_halves);
  CHECK_FALSE(data_path_for(one_host(5, 4, measured(1)), 0).messages_try_halves);  // a sender has to run for that
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

constexpr uint64_t kCopied = 32 << 20, kMiB = 1 << 20;

struct Streamed {
  Collective collective = TUTTI_ALL_REDUCE;
  int nranks = 2;
  int root = -1;
  bool in_place = false;
  int sharing = 0;  // processors, a last-level cache
};

// The least number of MiB of the vector, or of all blocks, from which `rank` stores results past the caches; 0: none.
uint64_t least_streamed_mib(const Streamed& call, int rank) {
  Costs costs;
  costs.streaming_bytes = {kCopied, Origin::kProbe};
  Topology topology = one_host(call.nranks, 8, costs, call.sharing);
  CallArguments arguments{.collective = call.collective, .datatype = TUTTI_UINT8, .op = TUTTI_SUM, .root = call.root};
  bool is_vector = call.collective == TUTTI_ALL_REDUCE || call.collective == TUTTI_REDUCE ||
                   call.collective == TUTTI_BROADCAST;
  for (uint64_t mib = 1; mib <= 1024; ++mib) {
    arguments.count = mib * kMiB / (is_vector ? 1 : static_cast<uint64_t>(call.nranks));
    Geometry geometry = geometry_of(arguments, rank, call.nranks).value();
    geometry.in_place = call.in_place;
    geometry.onto_input = false;  // for there are no buffers
    if (streams_results(topology, rank, call.collective, call.root, geometry, geometry.plan_count)) return mib;
  }
  return 0;
}

TEST_CASE("a rank stores results past the caches once what all ranks read and write is twice a copy that pays off so") {
  CHECK(least_streamed_mib({TUTTI_ALL_REDUCE, 1}, 0) == 32);
  CHECK(least_streamed_mib({TUTTI_ALL_REDUCE, 2}, 0) == 16);
  CHECK(least_streamed_mib({TUTTI_ALL_TO_ALL, 4}, 3) == 8);
  // One block beside all of them.
  CHECK(least_streamed_mib({TUTTI_ALL_GATHER, 4}, 1) == 13);
  CHECK(least_streamed_mib({TUTTI_REDUCE_SCATTER, 4}, 1) == 13);
  CHECK(least_streamed_mib({TUTTI_ALL_GATHER, 4, -1, true}, 0) == 16);
  for (int rank : {0, 5}) {
    CHECK(least_streamed_mib({TUTTI_BROADCAST, 8, 0}, rank) == 8);
    CHECK(least_streamed_mib({TUTTI_REDUCE, 8, 0}, rank) == 8);
  }
}

TEST_CASE("where half of what a host's ranks touch is a root's, half as much is stored past the caches") {
  for (int rank : {0, 1}) {
    CHECK(least_streamed_mib({TUTTI_BROADCAST, 2, 0}, rank) == 11);
    CHECK(least_streamed_mib({TUTTI_REDUCE, 2, 0}, rank) == 11);
  }
  for (int rank : {2, 7}) {
    CHECK(least_streamed_mib({TUTTI_GATHER, 8, 2}, rank) == 16);
    CHECK(least_streamed_mib({TUTTI_SCATTER, 8, 2}, rank) == 16);
  }
}

TEST_CASE("of several last-level caches the one counts that has the root's buffers, and those of the ranks beside it") {
  CHECK(least_streamed_mib({TUTTI_ALL_REDUCE, 8, -1, false, 4}, 0) == 8);  // two caches, four ranks each
  CHECK(least_streamed_mib({TUTTI_ALL_REDUCE, 2, -1, false, 4}, 0) == 32);
  CHECK(least_streamed_mib({TUTTI_GATHER, 8, 2, false, 1}, 2) == 29);  // an eighth is its own block
  CHECK(least_streamed_mib({TUTTI_GATHER, 8, 2, false, 4}, 2) == 22);  // and three of the others' eighths beside it
  CHECK(least_streamed_mib({TUTTI_SCATTER, 8, 2, false, 1}, 3) == 29);
}

TEST_CASE("what replaces input goes through the caches, and what a root has in place for others does not") {
  for (Collective collective : {TUTTI_ALL_REDUCE, TUTTI_REDUCE_SCATTER, TUTTI_ALL_TO_ALL}) {
    CHECK(least_streamed_mib({collective, 4, -1, true}, 0) == 0);
  }
  CHECK(least_streamed_mib({TUTTI_REDUCE, 4, 0, true}, 0) == 0);
  CHECK(least_streamed_mib({TUTTI_BROADCAST, 2, 0, true}, 0) == 16);
  CHECK(least_streamed_mib({TUTTI_SCATTER, 2, 0, true}, 0) == 22);
  Costs costs;
  costs.streaming_bytes = {kCopied, Origin::kProbe};
  Geometry onto_input{.input_bytes = kCopied, .output_bytes = kCopied / 2, .onto_input = true};
  CHECK_FALSE(streams_results(one_host(2, 2, costs), 0, TUTTI_REDUCE_SCATTER, -1, onto_input, kCopied));
  onto_input.onto_input = false;
  CHECK(streams_results(one_host(2, 2, costs), 0, TUTTI_REDUCE_SCATTER, -1, onto_input, kCopied));
}

TEST_CASE("of counts that all ranks know the planned size counts, and of others what a rank has") {
  Costs costs;
  costs.streaming_bytes = {kCopied, Origin::kProbe};
  Topology topology = one_host(4, 4, costs);
  auto is_streamed = [&](Collective collective, int root, uint64_t own_bytes, uint64_t planned_bytes) {
    return streams_results(topology, 1, collective, root, {.output_bytes = own_bytes}, planned_bytes);
  };
  CHECK_FALSE(is_streamed(TUTTI_ALL_GATHER_V, -1, 1024 * kMiB, kMiB));  // blocks far apart
  CHECK(is_streamed(TUTTI_ALL_GATHER_V, -1, kMiB, 1024 * kMiB));
  CHECK(is_streamed(TUTTI_ALL_TO_ALL_V, -1, 8 * kMiB, kMiB));
  CHECK_FALSE(is_streamed(TUTTI_ALL_TO_ALL_V, -1, 7 * kMiB, 1024 * kMiB));
  CHECK(is_streamed(TUTTI_SCATTER_V, 0, 4 * kMiB, kMiB));  // one of four blocks
  CHECK_FALSE(is_streamed(TUTTI_SCATTER_V, 0, 3 * kMiB, kMiB));
  CHECK_FALSE(is_streamed(TUTTI_GATHER_V, 1, 12 * kMiB, kMiB));  // all of them
  CHECK(is_streamed(TUTTI_SCATTER_V, 0, UINT64_MAX / 2, kMiB));
}

TEST_CASE("calls that a core's own caches hold go through them, and so do all where stores past them never pay off") {
  Costs costs;
  costs.streaming_bytes = {1, Origin::kProbe};
  auto is_streamed = [&](uint64_t bytes) {
    return streams_results(one_host(2, 2, costs), 0, TUTTI_ALL_REDUCE, -1, {.output_bytes = bytes}, bytes);
  };
  CHECK_FALSE(is_streamed(kMiB - 4));
  CHECK(is_streamed(kMiB));
  CHECK(is_streamed(uint64_t{1} << 62));
  costs.streaming_bytes.value = kNeverStreams;
  CHECK_FALSE(is_streamed(kMiB << 20));
}

TEST_CASE("only the ranks of the own host count, and of a broadcast from elsewhere none has an input") {
  Costs costs;
  costs.streaming_bytes = {kCopied, Origin::kProbe};
  Topology topology = one_host(2, 2, costs);
  topology.hosts.push_back(topology.hosts.front());
  topology.hosts.back().ranks = {2, 3};
  for (int i : {2, 3}) {
    topology.ranks.push_back(topology.ranks[i - 2]);
    topology.ranks.back().host = 1;
  }
  auto is_streamed = [&](int rank, uint64_t bytes) {
    return streams_results(topology, rank, TUTTI_BROADCAST, 0, {.output_bytes = bytes}, bytes);
  };
  CHECK_FALSE(is_streamed(3, kCopied - 1));
  CHECK(is_streamed(3, kCopied));
  CHECK(is_streamed(1, 11 * kMiB));
}

TEST_CASE("ranks that share a cache store messages past it from smaller sizes on") {
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
  constexpr uint64_t kWakeNs = 150'000;
  CHECK(waits(8, 2).spin_ns == 0);
  CHECK(waits(2, 2, kWakeNs).yield_ns == 1'500'000);
  CHECK(waits(8, 2, kWakeNs).yield_ns == 6'000'000);
  CHECK(waits(3, 2).spin_ns == 0);
}

TEST_CASE("a wait yields for as long as a peer takes to pull some MiB, however little a wake-up seems to cost") {
  CHECK(waits(2, 2, 4'000).yield_ns == 1'000'000);
  CHECK(waits(2, 2, 20'000).yield_ns == 1'000'000);
  CHECK(waits(8, 2, 20'000).yield_ns == 1'000'000);
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
  CHECK(data_path_for(one_host(2, 2), 0).spread.bytes == 2 << 20);
  CHECK(data_path_for(one_host(5, 8), 0).spread.bytes == 512 << 10);
  CHECK(data_path_for(one_host(1, 8), 0).spread.bytes == 2 << 20);
  Topology of_socket = one_host(2, 2);
  of_socket.hosts[0].inventory.caches.back().size_bytes = 300 << 20;
  CHECK(data_path_for(of_socket, 0).spread.own_bytes == 32 << 20);
  of_socket.hosts[0].inventory.caches.back().size_bytes = 8 << 20;
  CHECK(data_path_for(of_socket, 0).spread.own_bytes == 8 << 20);
  Topology near = one_host(2, 2), far = one_host(2, 2);
  near.hosts[0].inventory.costs.cache_line_ns = {55, Origin::kProbe};
  far.hosts[0].inventory.costs.cache_line_ns = {250, Origin::kProbe};
  CHECK(data_path_for(near, 0).spread.bytes == 0);
  CHECK(data_path_for(far, 0).spread.bytes == 2 << 20);
  near.hosts[0].inventory.costs.cache_line_ns = {89, Origin::kProbe};
  CHECK(data_path_for(near, 0).spread.bytes == 0);
  near.hosts[0].inventory.costs.cache_line_ns = {90, Origin::kProbe};
  CHECK(data_path_for(near, 0).spread.bytes == 2 << 20);
  near.hosts[0].inventory.costs.cache_line_ns = {55, Origin::kDefault};
  CHECK(data_path_for(near, 0).spread.bytes == 2 << 20);
  // Of several last-level caches two CPUs were measured, which say nothing of others, nor do those that may be used.
  Topology two_caches = one_host(2, 16, {}, 8);
  two_caches.hosts[0].inventory.costs.cache_line_ns = {55, Origin::kProbe};
  two_caches.hosts[0].inventory.cpu.allowed_cpus = {0, 8};
  CHECK(data_path_for(two_caches, 0).spread.bytes == 2 << 20);
  two_caches.hosts[0].inventory.caches.back().instances = 1;
  two_caches.hosts[0].inventory.caches.push_back({3, 16 << 20, 1, 8});
  CHECK(data_path_for(two_caches, 0).spread.bytes == 2 << 20);
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
    return mapped_slots_for(topology, 0, kSlot).most;
  };
  CHECK(slots_of(2, 2, 32 << 20) == INT_MAX);
  CHECK(slots_of(4, 2, 32 << 20) == 10);
  CHECK(slots_of(8, 2, 32 << 20) == 2);
  CHECK(slots_of(8, 2, 64 << 20) == 4);
  CHECK(slots_of(64, 2, 32 << 20) == 2);
  StreamLayout layout{.nranks = 8, .channels = 2};
  CHECK(layout.slots_in_use(0, true) == 4);
  layout.mapped_slots.most = 2;
  CHECK(layout.slots_in_use(0, true) == 2);
  CHECK(layout.slots_in_use(0, false) == 4);
  CHECK(layout.slots_in_use(layout.direct_channel(), true) == 16);
  layout.mapped_slots.most = 10;
  CHECK(layout.slots_in_use(1, true) == 4);
}

TEST_CASE("payloads of more than an eighth of a core's own cache go through two slots where ranks take turns") {
  auto large_bytes = [](int ranks, std::vector<Cache> caches) {
    Topology topology = one_host(ranks, 2);
    topology.hosts.front().inventory.caches = std::move(caches);
    for (const char* transport : {"tcp", "verbs"}) {
      topology.forced_transport = transport;
      CHECK(mapped_slots_for(topology, 0, 256 << 10).large_bytes == UINT64_MAX);
    }
    topology.forced_transport.clear();
    return mapped_slots_for(topology, 0, 256 << 10).large_bytes;
  };
  const Cache last{.level = 3, .size_bytes = 32 << 20, .instances = 1, .cpus_sharing = 2};
  auto own = [](uint64_t size_bytes) {
    return Cache{.level = 2, .size_bytes = size_bytes, .instances = 2, .cpus_sharing = 1};
  };
  CHECK(large_bytes(4, {own(1 << 20), last}) == 128 << 10);
  CHECK(large_bytes(4, {own(2 << 20), last}) == 256 << 10);
  CHECK(large_bytes(4, {own(256 << 10), last}) == 64 << 10);  // no less than any slice
  CHECK(large_bytes(4, {last}) == 64 << 10);
  CHECK(large_bytes(2, {own(1 << 20), last}) == UINT64_MAX);
  CHECK(large_bytes(4, {}) == UINT64_MAX);
}

TEST_CASE("ranks that take turns on a processor use few places of their slots") {
  for (int ranks : {3, 4, 8}) CHECK(data_path_for(one_host(ranks, 2), 0).spread.bytes == 0);
}
