#include "core/turn_lock.h"

namespace tutti {

// Whoever gives the turn up from here on sees that it is waited for, or this thread sees that it is free.
void TurnLock::begin_waiting() {
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  heavy_fence();
}

bool TurnLock::await(State as) {
  bool has_it = take(as);
  while (!has_it) {
    uint32_t found = state_.load(std::memory_order_seq_cst);
    if (as == kDriven && found == kDriven) break;
    if (found != kFree) state_.wait(found);
    has_it = take(as);
  }
  waiting_.fetch_sub(1, std::memory_order_acq_rel);
  return has_it;
}

// All of them: one may want to drive and find that another does.
void TurnLock::wake() {
  full_fence();  // between the state and what the standard library knows of its waiters
  state_.notify_all();
}

}  // namespace tutti
