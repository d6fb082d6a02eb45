#include <algorithm>

#include "discovery/calibrate.h"
#include "discovery/live_system.h"
#include "discovery/probes.h"
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

uint64_t last_level_bytes(const Inventory& host) {
  uint64_t largest = 0;
  for (const Cache& cache : host.caches) largest = std::max(largest, cache.size_bytes);
  return largest;
}

}  // namespace

Costs measure_costs(const Inventory& host) {
  Costs costs;
  auto set = [](Figure& figure, std::optional<uint64_t> value) {
    if (value) figure = {*value, Origin::kProbe};
  };
  CpuPair cpus = two_cpus(host.cpu.allowed_cpus);
  if (auto rates = probe_memory(cpus.first, cache_bytes(host, 2), last_level_bytes(host))) {
    set(costs.copy_bytes_per_s, rates->copy_bytes_per_s);
    set(costs.reduce_bytes_per_s, rates->reduce_bytes_per_s);
    set(costs.cached_bytes_per_s, rates->cached_bytes_per_s);
  }
  set(costs.cache_line_ns, probe_cache_line_ns(cpus));
  set(costs.wake_ns, probe_wake_ns(cpus));
  set(costs.yield_ns, probe_yield_ns(cpus.first));
  if (auto pull = probe_pull(cpus.first)) {
    set(costs.pull_ns, pull->ns);
    set(costs.pull_bytes_per_s, pull->bytes_per_s);
  }
  if (auto tcp = probe_tcp(cpus)) {
    set(costs.tcp_ns, tcp->ns);
    set(costs.tcp_bytes_per_s, tcp->bytes_per_s);
  }
  return costs;
}

}  // namespace tutti
