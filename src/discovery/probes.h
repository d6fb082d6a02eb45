// What calibration measures. Each probe blocks for a few milliseconds up to 150, is bounded, and gives nullopt
// where it cannot measure (no second CPU, no loopback interface, a forbidden system call).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

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
  uint64_t last_level_bytes_per_s = 0;
  uint64_t cached_copy_bytes_per_s = 0;
  uint64_t last_level_copy_bytes_per_s = 0;
};
// Of one core; 0 when unknown.
struct CacheSizes {
  uint64_t l2_bytes = 0;
  uint64_t last_level_bytes = 0;  // its part of what it shares with others
};
// On buffers of `buffer_bytes` each, three of them.
std::optional<MemoryRates> probe_memory(int cpu, CacheSizes caches, uint64_t buffer_bytes);

// The size from which on a copy whose result is read next is quicker with stores past the caches. When it is not even
// at `largest_bytes`: `last_level_bytes` where that is larger, since what was measured shows nothing of it then, else
// kNeverStreams; that also where the kernels have no such stores. Two buffers of `largest_bytes`.
std::optional<uint64_t> probe_streaming_bytes(int cpu, uint64_t largest_bytes, uint64_t last_level_bytes);
// How it is found from trials: whether such stores take at least so many percent less time for a copy of so many bytes.
// The trials go from the largest size down to the first one that fails.
using StreamingTrial = std::function<bool(uint64_t size_bytes, uint64_t percent)>;
uint64_t least_streaming_bytes(uint64_t largest_bytes, uint64_t last_level_bytes, const StreamingTrial& trial);

// Payload per second of all `cpus` copying at once, each from and to `bytes_of_each` of its own.
std::optional<uint64_t> probe_crowd(const std::vector<int>& cpus, uint64_t bytes_of_each);

// Payload per second of the copies by which two cores bring each other what lies in their memory, both at once.
struct SlotRates {
  uint64_t store_bytes_per_s = 0;  // into memory that the other one reads
  uint64_t load_bytes_per_s = 0;   // out of memory that the other one has stored into
  uint64_t wait_ns = 0;            // from when a core has stored a piece until it sees the other one's
};
// Through few places, as ranks near each other use them, or through more than their second-level caches hold.
enum class Places : uint8_t { kFew, kMany };
std::optional<SlotRates> probe_slots(CpuPair cpus, Places places);
// Of what stays in a few places, which both cores' first-level caches hold.
std::optional<SlotRates> probe_small_slots(CpuPair cpus);
// When both have stored kSettledBytes for each other and go on, so long each waits to see the other's.
std::optional<uint64_t> probe_settle_ns(CpuPair cpus);

std::optional<uint64_t> probe_cache_line_ns(CpuPair cpus);
// Whether they are the threads of one core, which do half as much each when both do something. That says more than the
// kernel knows on a virtual machine, whose host moves them.
bool probe_is_one_core(CpuPair cpus);
std::optional<uint64_t> probe_wake_ns(CpuPair cpus);
// To another process: a child that the program does not hear of, gone within 50 ms. The kernel copies the program's
// page tables for it, which takes longer the more memory it has mapped.
std::optional<uint64_t> probe_yield_ns(int cpu);

struct PullCost {
  uint64_t ns = 0;           // of a small one
  uint64_t bytes_per_s = 0;  // of large ones, two cores from each other at once
};
std::optional<PullCost> probe_pull(CpuPair cpus);

struct TcpCost {
  uint64_t ns = 0;          // one way of a small message
  uint64_t send_ns = 0;     // of the call that sends it
  uint64_t receive_ns = 0;  // of the one that receives it
  // One core sending blocks of kTcpBlockBytes, another one receiving them; each doing both: so much in each direction.
  uint64_t bytes_per_s = 0;
  uint64_t both_bytes_per_s = 0;
  // The same of kLargeTcpBlockBytes.
  uint64_t large_bytes_per_s = 0;
  uint64_t large_both_bytes_per_s = 0;
};
std::optional<TcpCost> probe_tcp(CpuPair cpus);

}  // namespace tutti
