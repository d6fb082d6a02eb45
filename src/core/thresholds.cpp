#include "core/thresholds.h"

#include <algorithm>
#include <bit>

#include "base/arithmetic.h"
#include "planner/cost.h"
#include "planner/planner.h"
#include "topology/caches.h"

namespace tutti {
namespace {

constexpr uint64_t kNever = UINT64_MAX;
constexpr Costs kAssumed;

bool is_assumed(const Figure& figure) { return figure.origin == Origin::kDefault; }

// Pulling has a fixed cost, and one pass over the data; a slot takes a copy into it and another one out. What was
// measured is not compared with what is assumed.
uint64_t pull_min_bytes(const Costs& known) {
  bool comparable = is_assumed(known.slot_bytes_per_s) == is_assumed(known.pull_bytes_per_s);
  const Costs& costs = comparable ? known : kAssumed;
  constexpr uint64_t kLeast = 4096;  // the kernel maps whole pages
  constexpr double kNsPerS = 1e9;
  double slot_ns_per_byte = kNsPerS / static_cast<double>(costs.slot_bytes_per_s.value);
  double pull_ns_per_byte = kPullMargin * kNsPerS / static_cast<double>(costs.pull_bytes_per_s.value);
  if (pull_ns_per_byte >= slot_ns_per_byte) return kNever;
  double even = static_cast<double>(costs.pull_ns.value) / (slot_ns_per_byte - pull_ns_per_byte);
  if (even >= static_cast<double>(uint64_t{1} << 62)) return kNever;
  return std::max(kLeast, std::bit_ceil(static_cast<uint64_t>(even)));
}

}  // namespace

DataPathOptions data_path_for(const Topology& topology, int rank) {
  const TopologyHost& host = topology.hosts[topology.ranks[rank].host];
  return {.pull_min_bytes = pull_min_bytes(host.inventory.costs),
          .streaming_min_bytes = streaming_min_bytes(host),
          .shared_min_bytes = kLeastSharedBytes / 2 + 1};  // the least of its size class
}

// A sleep costs a wake-up. Who spins for as long as that takes never spends more than twice of what the best choice
// would have cost (Karlin, Li, Manasse, Owicki, SOSP 1991). A core that yields is everybody's who wants it, so that may
// go on for longer. With more ranks than cores spinning only keeps the awaited rank from running, and between two of a
// rank's own turns the others have theirs.
WaitPolicy wait_policy_for(const Topology& topology, int rank, const Config& config) {
  return worker_policy_for(topology, rank, 1, config);
}

WaitPolicy worker_policy_for(const Topology& topology, int rank, int workers, const Config& config) {
  constexpr uint64_t kShortestSpinNs = 5'000;
  constexpr uint64_t kLongestSpinNs = 200'000;
  constexpr int64_t kYieldsPerSpin = 10;
  const TopologyHost& host = topology.hosts[topology.ranks[rank].host];
  uint64_t threads = host.ranks.size() * static_cast<uint64_t>(workers);
  uint64_t per_cpu = ceil_div(threads, host.inventory.cpu.usable());
  auto wake_ns = static_cast<int64_t>(std::clamp(host.inventory.costs.wake_ns.value, kShortestSpinNs, kLongestSpinNs));
  WaitPolicy policy;
  policy.spin_ns = per_cpu > 1 ? 0 : wake_ns;
  policy.yield_ns = kYieldsPerSpin * wake_ns * static_cast<int64_t>(std::max<uint64_t>(1, per_cpu));
  if (config.spin_us >= 0) policy.spin_ns = config.spin_us * 1000;
  if (config.yield_us >= 0) policy.yield_ns = config.yield_us * 1000;
  return policy;
}

}  // namespace tutti
