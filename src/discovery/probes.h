// What calibration measures. Each probe blocks for a few milliseconds up to a few tens, is bounded, and gives nullopt
// where it cannot measure (no second CPU, no loopback interface, a forbidden system call).
#pragma once

#include <cstdint>
#include <optional>

namespace tutti {

// Two allowed CPUs on different cores if possible; equal when there is only one.
struct CpuPair {
  int first = 0;
  int second = 0;
};

struct MemoryRates {
  uint64_t copy_bytes_per_s = 0;
  uint64_t reduce_bytes_per_s = 0;
  uint64_t cached_bytes_per_s = 0;
};
// `l2_bytes`, `last_level_bytes`: cache sizes, 0 when unknown.
std::optional<MemoryRates> probe_memory(int cpu, uint64_t l2_bytes, uint64_t last_level_bytes);

std::optional<uint64_t> probe_cache_line_ns(CpuPair cpus);
std::optional<uint64_t> probe_wake_ns(CpuPair cpus);
std::optional<uint64_t> probe_yield_ns(int cpu);

struct CallCost {
  uint64_t ns = 0;           // of a small one
  uint64_t bytes_per_s = 0;  // of large ones
};
std::optional<CallCost> probe_pull(int cpu);
std::optional<CallCost> probe_tcp(CpuPair cpus);

}  // namespace tutti
