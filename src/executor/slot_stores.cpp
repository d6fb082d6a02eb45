#include "executor/slot_stores.h"

#include <atomic>
#include <chrono>

namespace tutti {
namespace {

// With a reduction's stores.
void reduce_into(std::byte* to, const std::byte* from, uint64_t size_bytes) {
  const std::byte* const sources[] = {from};
  std::byte* const destinations[] = {to};
  reduce({.datatype = TUTTI_UINT8, .op = TUTTI_MAX, .sources = sources, .destinations = destinations,
          .count = size_bytes});
}

}  // namespace

void SlotStores::store(PayloadOrigin origin, std::byte* slot, const std::byte* from, uint64_t size_bytes,
                       uint64_t places, float memory_ns_per_byte) {
  if (!is_trial(origin, size_bytes)) return copy(slot, from, size_bytes, way(origin, size_bytes));
  if (begins(origin, size_bytes)) begin(origin, size_bytes, places);
  const Store tried = way(origin, size_bytes);
  // What waits in the core's store buffer belongs to the time, and what waited there before does not.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  auto start = std::chrono::steady_clock::now();
  bool computes = origin == PayloadOrigin::kComputed && tried == Store::kCached;
  computes ? reduce_into(slot, from, size_bytes) : copy(slot, from, size_bytes, tried);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - start;
  took(origin, size_bytes, static_cast<uint64_t>(passed.count()), memory_ns_per_byte);
}

}  // namespace tutti
