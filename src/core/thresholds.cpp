#include "core/thresholds.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "planner/footprint.h"
#include "planner/planner.h"
#include "planner/rates.h"
#include "topology/caches.h"

namespace tutti {
namespace {

// A message that the receiver reads where it lies is copied once, but its sender waits for that. Of this size on a
// message to and fro takes half the time, and one behind the other no more of it than through slots; those of less
// would be up to twice as slow one behind the other. Where ranks take turns on a processor each wait is a turn.
uint64_t lent_min_bytes(const TopologyHost& host) { return takes_turns(host) ? kLeastTried : kLeastPulled; }

// A rank waits until all have read what lies in its memory. Where ranks take turns that is a turn more, as long as it
// takes to copy more than 16 KiB into a slot and out of it.
uint64_t windows_min_bytes(const TopologyHost& host) { return takes_turns(host) ? 32 * 1024 : 4 * 1024; }

// When as much was written as two second-level caches hold, and read, the first of it has left the reader's. Where
// ranks take turns on a processor the turns of the others see to that, and slots of few places stay in the caches.
// Cores of one cache are quicker with few places, too, as measured with payloads of 8 to 256 KiB.
// Calls as large as the whole last level of caches need fewer; its share of one rank would be too little, as measured.
// One of a whole socket is others' too: from 32 MiB on as many places as there are took no less time, and more memory.
Spread spread_for(const TopologyHost& host) {
  constexpr uint64_t kMostOwnBytes = 32 << 20;
  uint64_t peers = std::max<uint64_t>(2, host.ranks.size()) - 1;
  uint64_t cache_bytes = cache_bytes_per_cpu(host.inventory);
  const Cache* last = last_level(host.inventory);
  bool stays = takes_turns(host) || are_near(host.inventory);
  return {.least_bytes = kLeastSpreadBytes,
          .bytes = stays ? 0 : 2 * cache_bytes / peers,
          .own_bytes = last != nullptr ? std::min(last->size_bytes, kMostOwnBytes) : UINT64_MAX};
}

}  // namespace

DataPathOptions data_path_for(const Topology& topology, int rank) {
  const TopologyHost& host = topology.hosts[topology.ranks[rank].host];
  const Costs& costs = host.inventory.costs;
  return {.lent_min_bytes = lent_min_bytes(host),
          .windows_min_bytes = windows_min_bytes(host),
          .messages_try_pulls = messages_try_pulls(costs),
          .messages_try_halves = messages_try_pulls(costs) && !takes_turns(host),
          .collectives_try_pulls = collectives_try_pulls(costs),
          .streaming_min_bytes = streaming_min_bytes(host),
          .spread = spread_for(host),
          .memory_ns_per_byte = 1e9F / static_cast<float>(std::max<uint64_t>(1, costs.copy_bytes_per_s.value)),
          .shared_min_bytes = kLeastSharedBytes / 2 + 1};  // the least of its size class
}

// What replaces input has been read before: its lines are in the caches, or come into them but once; and so it is where
// the result is copied onto the input afterwards. What others have in place, or of GPUs, this rank does not know. Of a
// gather or a scatter whose counts are the root's the others know their own block, and of counts that two ranks know
// gaps between blocks count, too.
bool streams_results(const Topology& topology, int rank, Collective collective, int root, const Geometry& geometry,
                     uint64_t planned_bytes) {
  constexpr uint64_t kLeast = 1 << 20;  // less stays in a core's own caches, however many share the last level
  uint64_t own_bytes = std::max(geometry.input_bytes, geometry.output_bytes);
  bool replaces = geometry.onto_input || (geometry.in_place && replaces_input(collective));
  if (own_bytes < kLeast || replaces) return false;
  const TopologyHost& host = topology.hosts[topology.ranks[rank].host];
  RanksOfHost ranks{.all = topology.nranks(), .local = static_cast<int>(host.ranks.size())};
  ranks.has_root = has_root(collective) && topology.ranks[root].host == topology.ranks[rank].host;
  if (has_private_counts(collective)) {
    bool has_block = has_root(collective) && rank != root;
    planned_bytes = saturating_mul(own_bytes, has_block ? static_cast<uint64_t>(ranks.all) : 1);
  }
  Footprint footprint = footprint_of(collective, planned_bytes, geometry.in_place, ranks);
  return stores_past_caches(host, footprint.all_bytes, footprint.most_bytes, footprint.half_by_one);
}

// Where many ranks take turns, all of them come to their slots before one comes to its own again: those of all pairs
// should fit into the last level of caches together. Two are enough for every plan. Slices of reductions among few
// ranks are twice as large as others (planner/shape.cpp), and are to take no more of a core's own cache.
MappedSlots mapped_slots_for(const Topology& topology, int rank, uint64_t slot_bytes) {
  const TopologyHost& host = topology.hosts[topology.ranks[rank].host];
  const Cache* last = last_level(host.inventory);
  uint64_t ranks = host.ranks.size(), cpus = host.inventory.cpu.usable();
  if (!takes_turns(host) || is_by_network_alone(topology) || last == nullptr) return {};
  uint64_t caches = ceil_div(cpus, static_cast<uint64_t>(std::max(1, last->cpus_sharing)));
  using Wide = unsigned __int128;
  Wide of_all_pairs = Wide{ranks} * (ranks - 1) * slot_bytes;
  constexpr Wide kLeast = 2, kMost = 1024;
  return {.most = static_cast<int>(std::clamp(Wide{caches} * last->size_bytes / of_all_pairs, kLeast, kMost)),
          .large_bytes = share_of_cache(host.inventory, 8)};
}

MappedSlots least_mapped_slots(const Topology& topology, const StreamLayout& layout) {
  MappedSlots least{.most = layout.slots};
  for (const TopologyHost& host : topology.hosts) {
    StreamLayout there = layout;
    there.mapped_slots = mapped_slots_for(topology, host.ranks.front(), layout.slot_bytes);
    least.most = std::min(least.most, there.slots_in_use(0, true));
    least.large_bytes = std::min(least.large_bytes, there.large_bytes(0, true));
  }
  return least;
}

// A sleep costs a wake-up. Who spins for as long as that takes never spends more than twice of what the best choice
// would have cost (Karlin, Li, Manasse, Owicki, SOSP 1991). A core that yields is everybody's who wants it, so that may
// go on for longer, and does for as long as a peer takes to pull some MiB even where wake-ups seem to cost little: a
// core that was idle meanwhile takes four times what calibration sees to go on. With more ranks than cores spinning
// only keeps the awaited rank from running, and between two of a rank's own turns the others have theirs.
WaitPolicy wait_policy_for(const Topology& topology, int rank, const Config& config) {
  return worker_policy_for(topology, rank, 1, config);
}

WaitPolicy worker_policy_for(const Topology& topology, int rank, int workers, const Config& config) {
  constexpr uint64_t kShortestSpinNs = 5'000;
  constexpr uint64_t kLongestSpinNs = 200'000;
  constexpr int64_t kYieldsPerSpin = 10;
  constexpr int64_t kShortestYieldNs = 1'000'000;
  const TopologyHost& host = topology.hosts[topology.ranks[rank].host];
  uint64_t threads = host.ranks.size() * static_cast<uint64_t>(workers);
  uint64_t per_cpu = ceil_div(threads, host.inventory.cpu.usable());
  auto wake_ns = static_cast<int64_t>(std::clamp(host.inventory.costs.wake_ns.value, kShortestSpinNs, kLongestSpinNs));
  WaitPolicy policy;
  policy.spin_ns = per_cpu > 1 ? 0 : wake_ns;
  policy.yield_ns = kYieldsPerSpin * wake_ns * static_cast<int64_t>(std::max<uint64_t>(1, per_cpu));
  policy.yield_ns = std::max(policy.yield_ns, kShortestYieldNs);
  if (config.spin_us >= 0) policy.spin_ns = config.spin_us * 1000;
  if (config.yield_us >= 0) policy.yield_ns = config.yield_us * 1000;
  return policy;
}

}  // namespace tutti
