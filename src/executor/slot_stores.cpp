#include "executor/slot_stores.h"

#include <atomic>
#include <chrono>

namespace tutti {

void SlotStores::store(std::byte* slot, const std::byte* from, uint64_t size_bytes, uint64_t places,
                       float memory_ns_per_byte) {
  if (!is_trial(size_bytes)) return copy(slot, from, size_bytes, way(size_bytes));
  if (begins(size_bytes)) begin(size_bytes, places);
  // What waits in the core's store buffer belongs to the time, and what waited there before does not.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto start = std::chrono::steady_clock::now();
  copy(slot, from, size_bytes, way(size_bytes));
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - start;
  took(size_bytes, static_cast<uint64_t>(passed.count()), memory_ns_per_byte);
}

}  // namespace tutti
