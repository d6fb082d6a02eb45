#include "core/completions.h"

#include <chrono>

#include "base/fences.h"

namespace tutti {
namespace {

// An announcement that was made while nobody had said yet that he waits is made up for within this time.
constexpr auto kLookAgain = std::chrono::milliseconds(100);

}  // namespace

// The announcer first completes the request and then looks for waiters; a waiter first says that it waits and then
// looks at the request. One of the two sees the other.
void Completions::announce() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  std::lock_guard lock(mutex_);
  announced_.notify_all();
}

void Completions::wait(const std::function<bool()>& is_over) {
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  heavy_fence();
  {
    std::unique_lock lock(mutex_);
    while (!is_over()) announced_.wait_for(lock, kLookAgain);
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace tutti
