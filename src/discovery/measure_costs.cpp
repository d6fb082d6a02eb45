#include <algorithm>
#include <bit>
#include <ctime>
#include <vector>

#include "discovery/between_cores.h"
#include "discovery/calibrate.h"
#include "discovery/live_system.h"
#include "discovery/pinned.h"
#include "discovery/probes.h"
#include "topology/caches.h"
#include "topology/cpu_list.h"

namespace tutti {
namespace {

CpuPair two_cpus(const std::vector<int>& allowed) {
  int first = allowed.empty() ? 0 : allowed.front();
  LiveSystem system;
  std::string list =
      system.read_file(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", first)).value_or("");
  std::vector<int> siblings = parse_cpu_list(list.substr(0, list.find('\n'))).value_or(std::vector<int>());
  auto other = std::find_if(allowed.begin(), allowed.end(), [&](int cpu) {
    return cpu != first && std::find(siblings.begin(), siblings.end(), cpu) == siblings.end();
  });
  if (other != allowed.end()) return {first, *other};
  return {first, allowed.empty() ? first : allowed.back()};
}

uint64_t cache_bytes(const Inventory& host, int level) {
  for (const Cache& cache : host.caches) {
    if (cache.level == level) return cache.size_bytes;
  }
  return 0;
}

Cache last_level_or_none(const Inventory& host) {
  const Cache* last = last_level(host);
  return last == nullptr ? Cache{} : *last;
}

// Sizes of the buffers that are measured on: larger than the caches, and a small part of the memory that there is.
struct Buffers {
  explicit Buffers(const Inventory& host) {
    constexpr uint64_t kSmallest = 1 << 20;
    uint64_t memory = host.limits.memory_bytes == 0 ? uint64_t{1} << 30 : host.limits.memory_bytes;
    if (host.limits.memory_limit_bytes != 0) memory = std::min(memory, host.limits.memory_limit_bytes);
    uint64_t affordable = memory / 16;
    Cache cache = last_level_or_none(host);
    uint64_t all_caches = cache.size_bytes * static_cast<uint64_t>(std::max(1, cache.instances));
    one_bytes = std::clamp<uint64_t>(2 * cache.size_bytes, 16 << 20, 64 << 20);
    one_bytes = std::max(kSmallest, std::bit_floor(std::min(one_bytes, affordable / 3)));
    crowd_bytes = std::min(std::clamp<uint64_t>(2 * all_caches, 64 << 20, 512 << 20), affordable / 2);
    crowd_cpus = host.cpu.allowed_cpus;
    crowd_cpus.resize(std::clamp<size_t>(crowd_bytes / kSmallest, 1, std::max<size_t>(1, crowd_cpus.size())));
    crowd_bytes = std::max(kSmallest, crowd_bytes / crowd_cpus.size() / 4096 * 4096);
  }
  uint64_t one_bytes;           // each of up to three, of one core
  std::vector<int> crowd_cpus;  // all that there is memory for
  uint64_t crowd_bytes;         // each of two of every one of these
};

void measure_memory(const Inventory& host, CpuPair cpus, Costs& costs) {
  Buffers buffers(host);
  // This core has the last level for itself meanwhile: as much of it as ranks may have, and more than the L2.
  Cache last = last_level_or_none(host);
  uint64_t sharing = std::min<uint64_t>(std::max(1, last.cpus_sharing), host.cpu.usable());
  uint64_t l2_bytes = cache_bytes(host, 2);
  CacheSizes caches{l2_bytes, std::max(last.size_bytes / sharing, std::min(4 * l2_bytes, last.size_bytes))};
  if (auto rates = probe_memory(cpus.first, caches, buffers.one_bytes)) {
    set_probed(costs.copy_bytes_per_s, rates->copy_bytes_per_s);
    set_probed(costs.reduce_bytes_per_s, rates->reduce_bytes_per_s);
    set_probed(costs.cached_bytes_per_s, rates->cached_bytes_per_s);
    set_probed(costs.last_level_bytes_per_s, rates->last_level_bytes_per_s);
    set_probed(costs.cached_copy_bytes_per_s, rates->cached_copy_bytes_per_s);
    set_probed(costs.last_level_copy_bytes_per_s, rates->last_level_copy_bytes_per_s);
  }
  set_probed(costs.streaming_bytes, probe_streaming_bytes(cpus.first, buffers.one_bytes, last.size_bytes));
}

// As calls use them that go by such a line.
Places places_beside(Inventory host, std::optional<uint64_t> cache_line_ns) {
  set_probed(host.costs.cache_line_ns, cache_line_ns);
  return are_near(host) ? Places::kFew : Places::kMany;
}

BetweenCores measure_between(const Inventory& host, CpuPair cpus) {
  Buffers buffers(host);
  BetweenCores found{.is_one_core = probe_is_one_core(cpus), .cache_line_ns = probe_cache_line_ns(cpus)};
  found.yield_ns = probe_yield_ns(cpus.first);
  found.memory_bytes_per_s = probe_crowd(buffers.crowd_cpus, buffers.crowd_bytes);
  found.slots = probe_slots(cpus, places_beside(host, found.cache_line_ns));
  found.small_slots = probe_small_slots(cpus);
  found.settle_wait_ns = probe_settle_ns(cpus);
  found.pull = probe_pull(cpus);
  found.later_cache_line_ns = probe_cache_line_ns(cpus);
  found.tcp = probe_tcp(cpus);
  return found;
}

}  // namespace

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  run_pinned(0, [&] {
    let_this_thread_use(0, kMaxCpus - 1);
    auto process = LiveSystem().process();
    if (process.ok()) cpus = process->allowed_cpus;
  });
  return cpus;
}

Costs measure_costs(const Inventory& host) {
  Costs costs;
  CpuPair cpus = two_cpus(host.cpu.allowed_cpus);
  std::vector<BetweenCores> times;
  times.push_back(measure_between(host, cpus));
  measure_memory(host, cpus, costs);
  times.push_back(measure_between(host, cpus));
  set_probed(costs.wake_ns, probe_wake_ns(cpus));
  times.push_back(measure_between(host, cpus));
  set_between(times, costs);
  costs.measured_at_s = static_cast<uint64_t>(std::time(nullptr));
  return costs;
}

}  // namespace tutti
