// TurnLock: one thread at a time has the turn to advance a communicator's calls. A thread of the caller may have it as
// the driver: it then makes progress for all callers, and no other one becomes a driver meanwhile. Taking a free turn
// costs one atomic operation, and giving it up none, as every blocking call does both.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/fences.h"

namespace tutti {

class TurnLock {
 public:
  // With std::unique_lock. Fails where somebody has it.
  bool try_lock() { return take(kHeld); }
  void unlock() {
    state_.store(kFree, std::memory_order_release);
    light_fence();
    if (waiting_.load(std::memory_order_relaxed) > 0) [[unlikely]] wake();
  }
  // Waits until it is free. `ask` is called once, where it is not, and makes whoever has it give it up soon.
  template <typename Ask>
  void lock(const Ask& ask) {
    if (take(kHeld)) return;
    begin_waiting();
    ask();
    await(kHeld);
  }
  // The same as the driver; false where another thread is it.
  template <typename Ask>
  bool drive(const Ask& ask) {
    if (take(kDriven)) [[likely]] return true;
    if (is_driven()) return false;
    begin_waiting();
    ask();
    return await(kDriven);
  }

  bool is_driven() const { return state_.load(std::memory_order_seq_cst) == kDriven; }
  // Whether a thread waits in lock() or drive().
  bool is_wanted() const { return waiting_.load(std::memory_order_acquire) > 0; }

 private:
  enum State : uint32_t { kFree, kHeld, kDriven };

  bool take(State as) {
    uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, as, std::memory_order_seq_cst);
  }
  void begin_waiting();
  bool await(State as);
  void wake();

  std::atomic<uint32_t> state_{kFree};
  std::atomic<int> waiting_{0};
};

}  // namespace tutti
