// Completions: where threads wait for any of several requests, which may belong to different communicators.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace tutti {

class Completions {
 public:
  // A request that others may wait for is complete. Cheap while nobody waits here. Any thread.
  void announce();
  // Whether somebody waits here: for who has changed something before, and then called light_fence().
  bool has_waiters() const { return waiters_.load(std::memory_order_seq_cst) > 0; }
  // Sleeps until `is_over`, which announcements and time make look again.
  void wait(const std::function<bool()>& is_over);

 private:
  std::atomic<int> waiters_{0};
  std::mutex mutex_;
  std::condition_variable announced_;
};

}  // namespace tutti
