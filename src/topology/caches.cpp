#include "topology/caches.h"

#include <algorithm>
#include <bit>

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

// Pulling has a fixed cost, and one pass over the data; a slot takes a copy into it and another one out. A pull keeps
// its sender waiting, and where it is the wrong choice a call takes twice as long: so it has to be twice as quick. What
// was measured is not compared with what is assumed.
uint64_t pull_min_bytes(const Costs& known) {
  constexpr uint64_t kLeast = 4096;  // the kernel maps whole pages
  constexpr uint64_t kNever = UINT64_MAX;
  constexpr Costs kAssumed;
  using Wide = unsigned __int128;
  auto is_assumed = [](const Figure& figure) { return figure.origin == Origin::kDefault; };
  bool comparable = is_assumed(known.slot_bytes_per_s) == is_assumed(known.pull_bytes_per_s);
  const Costs& costs = comparable ? known : kAssumed;
  Wide slot = costs.slot_bytes_per_s.value, pull = costs.pull_bytes_per_s.value;
  if (pull <= slot * 2) return kNever;
  // Even where ns / 10^9 + 2 * bytes / pull = bytes / slot.
  Wide bytes_per_s = slot * pull / (pull - slot * 2);
  if (bytes_per_s > Wide{1} << 60) return kNever;
  Wide even = bytes_per_s * costs.pull_ns.value / 1'000'000'000;
  return even >= Wide{1} << 62 ? kNever : std::max(kLeast, std::bit_ceil(static_cast<uint64_t>(even)));
}

// A call whose input and output do not fit into the rank's share of the caches gains nothing from having its results
// there. The calibrated size is that of one core, which has them for itself.
uint64_t streaming_min_bytes(const TopologyHost& host) {
  constexpr uint64_t kLeast = 1 << 20;  // less stays in a core's own caches, however many share the last level
  uint64_t of_one_core = host.inventory.costs.streaming_bytes.value;
  return of_one_core == kNeverStreams ? UINT64_MAX : std::max(kLeast, of_one_core / ranks_sharing_cache(host));
}

uint64_t last_level_bytes_per_rank(const TopologyHost& host) {
  const Cache* last = last_level(host.inventory);
  return last == nullptr ? 0 : last->size_bytes / ranks_sharing_cache(host);
}

}  // namespace tutti
