#include "core/device_watch.h"

#include <chrono>
#include <utility>

#include "base/guard.h"
#include "core/stream_entry.h"

namespace tutti {

DeviceWatch::~DeviceWatch() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DeviceWatch::add(const std::shared_ptr<StreamEntry>& entry) {
  if (entry->is_watched.exchange(true, std::memory_order_seq_cst)) return;
  std::lock_guard lock(mutex_);
  entries_.push_back(entry);
  if (!thread_.joinable()) thread_ = std::thread([this] { or_end_without_memory([this] { run(); }); });
  changed_.notify_all();
}

void DeviceWatch::run() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    changed_.wait(lock, [this] { return ends_ || !entries_.empty(); });
    if (changed_.wait_for(lock, std::chrono::milliseconds(kGpuLookMs), [this] { return ends_; })) return;
    auto watched = std::exchange(entries_, {});
    lock.unlock();
    for (const auto& entry : watched) {
      // Whoever puts a call there from here on adds it again.
      entry->is_watched.store(false, std::memory_order_seq_cst);
      Status seen = guarded([&] { return entry->look_at_device(); });
      if (!seen.ok()) {
        entry->break_down(seen);
      } else if (entry->has_calls()) {
        add(entry);
      }
    }
    watched.clear();
    lock.lock();
  }
}

}  // namespace tutti
