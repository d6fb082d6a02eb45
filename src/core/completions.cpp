#include "core/completions.h"

namespace tutti {

void Completions::announce() {
  full_fence();
  if (waiters_.load(std::memory_order_seq_cst) == 0) return;
  std::lock_guard lock(mutex_);
  announced_.notify_all();
}

}  // namespace tutti
