#include "topology/caches.h"

#include <algorithm>
#include <numeric>

#include "base/arithmetic.h"

namespace tutti {
namespace {

// Ranks per last-level cache, if they are spread evenly.
uint64_t ranks_sharing_cache(const TopologyHost& host) {
  const Cache* last = last_level(host.inventory);
  uint64_t sharing = last == nullptr ? 0 : std::max(0, last->cpus_sharing);
  uint64_t instances = sharing == 0 ? 1 : ceil_div(host.inventory.cpu.usable(), sharing);
  return std::max<uint64_t>(1, ceil_div(host.ranks.size(), instances));
}

}  // namespace

const Cache* last_level(const Inventory& host) {
  auto lower = [](const Cache& a, const Cache& b) { return a.level < b.level; };
  auto last = std::max_element(host.caches.begin(), host.caches.end(), lower);
  return last == host.caches.end() ? nullptr : &*last;
}

uint64_t cache_bytes_per_cpu(const Inventory& inventory) {
  for (const Cache& cache : inventory.caches) {
    if (cache.level == 2) return cache.size_bytes / std::max(1, cache.cpus_sharing);
  }
  return 0;
}

uint64_t share_of_cache(const Inventory& inventory, uint64_t pieces) {
  constexpr uint64_t kLeast = 64 * 1024;
  return std::max(kLeast, cache_bytes_per_cpu(inventory) / pieces / 64 * 64);
}

bool are_near(const Inventory& host) {
  constexpr uint64_t kNearNs = 90;  // 20 to 80 were seen, 96 to 127 in a mesh, and from 150 on between far ones
  const Cache* last = last_level(host);
  // Those of one level that differ in size have an entry each.
  auto count = [&](int sum, const Cache& cache) { return cache.level == last->level ? sum + cache.instances : sum; };
  bool have_one = last != nullptr && std::accumulate(host.caches.begin(), host.caches.end(), 0, count) == 1;
  const Figure& line = host.costs.cache_line_ns;
  return have_one && line.origin != Origin::kDefault && line.value < kNearNs;
}

// A message whose two ends do not fit into the rank's share of the caches gains nothing from having its results
// there. The calibrated size is that of one core, which has them for itself.
uint64_t streaming_min_bytes(const TopologyHost& host) {
  constexpr uint64_t kLeast = 1 << 20;  // less stays in a core's own caches, however many share the last level
  uint64_t of_one_core = host.inventory.costs.streaming_bytes.value;
  return of_one_core == kNeverStreams ? UINT64_MAX : std::max(kLeast, of_one_core / ranks_sharing_cache(host));
}

uint64_t bytes_in_fullest_cache(const TopologyHost& host, uint64_t all_bytes, uint64_t most_bytes) {
  using Wide = unsigned __int128;
  uint64_t others = std::max<uint64_t>(2, host.ranks.size()) - 1, beside = ranks_sharing_cache(host) - 1;
  Wide bytes = most_bytes + Wide{all_bytes - std::min(all_bytes, most_bytes)} * beside / others;
  return static_cast<uint64_t>(std::min(bytes, Wide{UINT64_MAX}));
}

// The calibrated size is that of a copy, and of what it is made of. A core that reads or writes half of all for itself
// pushes it out sooner, as measured among 2 and 8 ranks beside near cores.
bool stores_past_caches(const TopologyHost& host, uint64_t all_bytes, uint64_t most_bytes, bool half_by_one) {
  uint64_t copied = host.inventory.costs.streaming_bytes.value;
  if (copied == kNeverStreams) return false;
  return bytes_in_fullest_cache(host, all_bytes, most_bytes) >= (half_by_one ? copied : 2 * copied);
}

bool collectives_try_pulls(const Costs& costs) {
  if (!messages_try_pulls(costs)) return false;
  constexpr uint64_t kLargeBytes = 1 << 20, kNsPerS = 1'000'000'000;
  auto ns = [](const Figure& bytes_per_s) { return kLargeBytes * kNsPerS / std::max<uint64_t>(1, bytes_per_s.value); };
  auto is_measured = [](const Figure& figure) { return figure.origin != Origin::kDefault; };
  const Figure& store = costs.slot_store_bytes_per_s;
  const Figure& load = costs.slot_load_bytes_per_s;
  if (!is_measured(store) || !is_measured(load)) return true;
  return ns(store) + ns(load) >= costs.pull_ns.value + ns(costs.pull_bytes_per_s);
}

}  // namespace tutti
