#include <algorithm>
#include <bit>
#include <ctime>
#include <limits>
#include <vector>

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

void set(Figure& figure, std::optional<uint64_t> value) {
  if (value) figure = {*value, Origin::kProbe};
}

void measure_memory(const Inventory& host, CpuPair cpus, Costs& costs) {
  Buffers buffers(host);
  // This core has the last level for itself meanwhile: as much of it as ranks may have, and more than the L2.
  Cache last = last_level_or_none(host);
  uint64_t sharing = std::min<uint64_t>(std::max(1, last.cpus_sharing), host.cpu.usable());
  uint64_t l2_bytes = cache_bytes(host, 2);
  CacheSizes caches{l2_bytes, std::max(last.size_bytes / sharing, std::min(4 * l2_bytes, last.size_bytes))};
  if (auto rates = probe_memory(cpus.first, caches, buffers.one_bytes)) {
    set(costs.copy_bytes_per_s, rates->copy_bytes_per_s);
    set(costs.reduce_bytes_per_s, rates->reduce_bytes_per_s);
    set(costs.cached_bytes_per_s, rates->cached_bytes_per_s);
    set(costs.last_level_bytes_per_s, rates->last_level_bytes_per_s);
    set(costs.cached_copy_bytes_per_s, rates->cached_copy_bytes_per_s);
    set(costs.last_level_copy_bytes_per_s, rates->last_level_copy_bytes_per_s);
  }
  set(costs.streaming_bytes, probe_streaming_bytes(cpus.first, buffers.one_bytes, last.size_bytes));
}

// What two cores cost each other, and processes on one. Those of a virtual machine may be near each other at one time,
// far at another, and at a third the two threads of one core, which have each other's lines at once and half a core.
struct BetweenCores {
  std::optional<uint64_t> cache_line_ns;
  std::optional<uint64_t> yield_ns;
  std::optional<uint64_t> memory_bytes_per_s;  // of all: cores near each other share a way to it
  std::optional<SlotRates> slots;
  std::optional<SlotRates> small_slots;
  std::optional<PullCost> pull;
  std::optional<TcpCost> tcp;
};

BetweenCores measure_between(const Inventory& host, CpuPair cpus) {
  Buffers buffers(host);
  return {probe_cache_line_ns(cpus), probe_yield_ns(cpus.first), probe_crowd(buffers.crowd_cpus, buffers.crowd_bytes),
          probe_slots(cpus),         probe_small_slots(cpus),    probe_pull(cpus),
          probe_tcp(cpus)};
}

// Of a byte, into a slot and out of it: threads of one core are quicker than cores at either, but not at both.
double through_slot_ns(const BetweenCores& of) {
  if (!of.slots) return std::numeric_limits<double>::infinity();
  return 1e9 / static_cast<double>(of.slots->store_bytes_per_s) + 1e9 / static_cast<double>(of.slots->load_bytes_per_s);
}

// Figures of one such state differ by less than a quarter, and of two by a factor.
bool are_as_near(const BetweenCores& one, const BetweenCores& other) {
  if (!one.cache_line_ns || !other.cache_line_ns) return one.cache_line_ns == other.cache_line_ns;
  return 4 * *one.cache_line_ns <= 5 * *other.cache_line_ns && 4 * *other.cache_line_ns <= 5 * *one.cache_line_ns;
}

// Of several times the one when cores were near each other and had the caches for themselves counts. When no other
// program ran there counts of a yield, which is as long beside any core, and of the memory, which is as quick beside
// cores as near.
void set_between(const std::vector<BetweenCores>& times, Costs& costs) {
  const BetweenCores& nearest = *std::min_element(
      times.begin(), times.end(), [](auto& one, auto& other) { return through_slot_ns(one) < through_slot_ns(other); });
  set(costs.cache_line_ns, nearest.cache_line_ns);
  std::optional<uint64_t> yield_ns, memory_bytes_per_s;
  for (const BetweenCores& time : times) {
    if (time.yield_ns) yield_ns = std::min(*time.yield_ns, yield_ns.value_or(*time.yield_ns));
    if (are_as_near(time, nearest)) memory_bytes_per_s = std::max(memory_bytes_per_s, time.memory_bytes_per_s);
  }
  set(costs.yield_ns, yield_ns);
  set(costs.memory_bytes_per_s, memory_bytes_per_s);
  if (nearest.slots) {
    set(costs.slot_store_bytes_per_s, nearest.slots->store_bytes_per_s);
    set(costs.slot_load_bytes_per_s, nearest.slots->load_bytes_per_s);
  }
  if (nearest.small_slots) {
    set(costs.small_slot_store_bytes_per_s, nearest.small_slots->store_bytes_per_s);
    set(costs.small_slot_load_bytes_per_s, nearest.small_slots->load_bytes_per_s);
  }
  if (!nearest.pull) return;
  set(costs.pull_ns, nearest.pull->ns);
  set(costs.pull_bytes_per_s, nearest.pull->bytes_per_s);
}

// The same for TCP: they may have moved while one of these was measured. Small messages, and the calls that send and
// receive them, take longer also when another program ran there, and have their least times.
void set_tcp(const std::vector<BetweenCores>& times, Costs& costs) {
  std::vector<TcpCost> measured;
  for (const BetweenCores& time : times) {
    if (time.tcp) measured.push_back(*time.tcp);
  }
  if (measured.empty()) return;
  auto least_by = [&](auto figure) {
    return *std::min_element(measured.begin(), measured.end(),
                             [&](auto& one, auto& other) { return figure(one) < figure(other); });
  };
  set(costs.tcp_ns, least_by([](const TcpCost& of) { return of.ns; }).ns);
  TcpCost quickest = least_by([](const TcpCost& of) { return of.send_ns + of.receive_ns; });
  set(costs.tcp_send_ns, quickest.send_ns);
  set(costs.tcp_receive_ns, quickest.receive_ns);
  TcpCost nearest = least_by([](const TcpCost& of) { return 1.0 / static_cast<double>(of.both_bytes_per_s); });
  set(costs.tcp_bytes_per_s, nearest.bytes_per_s);
  set(costs.tcp_both_bytes_per_s, nearest.both_bytes_per_s);
  set(costs.large_tcp_bytes_per_s, nearest.large_bytes_per_s);
  set(costs.large_tcp_both_bytes_per_s, nearest.large_both_bytes_per_s);
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
  set(costs.wake_ns, probe_wake_ns(cpus));
  times.push_back(measure_between(host, cpus));
  set_between(times, costs);
  set_tcp(times, costs);
  costs.measured_at_s = static_cast<uint64_t>(std::time(nullptr));
  return costs;
}

}  // namespace tutti
