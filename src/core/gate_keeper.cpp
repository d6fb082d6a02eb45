#include "core/gate_keeper.h"

#include "base/memory.h"

namespace tutti {

GateKeeper::~GateKeeper() {
  ends_.store(true, std::memory_order_release);
  ring();
  if (thread_.joinable()) thread_.join();
}

void GateKeeper::ring() noexcept {
  bell_.fetch_add(1, std::memory_order_acq_rel);
  wake(bell_);
}

void GateKeeper::add(std::shared_ptr<GpuGates> gates) {
  std::lock_guard lock(mutex_);
  all_.push_back(std::move(gates));
  if (!thread_.joinable()) thread_ = std::thread([this] { or_end_without_memory([this] { run(); }); });
}

void GateKeeper::leave(const std::shared_ptr<GpuGates>& gates) {
  std::lock_guard lock(mutex_);
  gates->be_alone();
  if (!gates->is_cancelled()) std::erase(all_, gates);
}

void GateKeeper::run() {
  while (!ends_.load(std::memory_order_acquire)) {
    uint32_t heard = bell_.load(std::memory_order_acquire);
    sleeps_.store(true, std::memory_order_seq_cst);
    bool is_busy = false;
    {
      std::lock_guard lock(mutex_);
      std::erase_if(all_, [&](const auto& gates) {
        bool goes_on = gates->tend();
        is_busy = is_busy || goes_on;
        return !goes_on && gates->is_alone();
      });
    }
    if (is_busy) sleeps_.store(false, std::memory_order_relaxed);
    sleep_on(bell_, heard, is_busy ? kGpuLookMs : -1);
  }
}

}  // namespace tutti
