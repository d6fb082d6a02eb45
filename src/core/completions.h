// Completions: where threads wait for any of several requests, which may belong to different communicators.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/fences.h"

namespace tutti {

class Completions {
 public:
  // A request that others may wait for is complete. Cheap while nobody waits here. Any thread.
  void announce();
  // Whether somebody waits here: for who has changed something before, and then called light_fence().
  bool has_waiters() const { return waiters_.load(std::memory_order_seq_cst) > 0; }
  // Sleeps until `is_over()`, which announcements and time make look again.
  template <typename IsOver>
  void wait(IsOver&& is_over);

 private:
  // An announcement that was made while nobody had said yet that he waits is made up for within this time.
  static constexpr auto kLookAgain = std::chrono::milliseconds(100);

  std::atomic<int> waiters_{0};
  std::mutex mutex_;
  std::condition_variable announced_;
};

// The announcer first completes the request and then looks for waiters; a waiter first says that it waits and then
// looks at the request. One of the two sees the other.
template <typename IsOver>
void Completions::wait(IsOver&& is_over) {
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  heavy_fence();
  {
    std::unique_lock lock(mutex_);
    while (!is_over()) announced_.wait_for(lock, kLookAgain);
  }
  waiters_.fetch_sub(1, std::memory_order_seq_cst);
}

}  // namespace tutti
