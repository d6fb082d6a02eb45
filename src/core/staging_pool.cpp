#include "core/staging_pool.h"

#include <algorithm>
#include <bit>

namespace tutti {
namespace {

constexpr uint64_t kSmallestBytes = 64 * 1024;
// More than that is given back to the system, what was unused the longest first.
constexpr uint64_t kMostIdleBytes = 64 * 1024 * 1024;
constexpr size_t kMostIdle = 64;  // each has a descriptor
constexpr uint64_t kStepBytes = 16 * 1024 * 1024;

}  // namespace

StagingPool::~StagingPool() {
  for (const Idle& each : idle_) free(each.data);
}

StagingPool::Memory::~Memory() {
  if (data_ == nullptr) return;
  if (is_abandoned_) {
    pool_->free(data_);
  } else {
    pool_->put_back(data_, size_bytes_);
  }
}

StagingPool::Idle StagingPool::remove(size_t position) {
  Idle removed = idle_[position];
  idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(position));
  idle_bytes_ -= removed.size_bytes;
  return removed;
}

Result<StagingPool::Memory> StagingPool::take(uint64_t size_bytes) {
  // Large pinned memory is not rounded up by half of it.
  bool is_large = pinning_.begin && size_bytes > kStepBytes;
  uint64_t wanted = is_large ? (size_bytes + kStepBytes - 1) / kStepBytes * kStepBytes
                             : std::bit_ceil(std::max(size_bytes, kSmallestBytes));
  {
    std::lock_guard lock(mutex_);
    size_t best = idle_.size();
    for (size_t i = 0; i < idle_.size(); ++i) {
      bool fits = idle_[i].size_bytes >= wanted;
      if (fits && (best == idle_.size() || idle_[i].size_bytes < idle_[best].size_bytes)) best = i;
    }
    if (best < idle_.size()) {
      Idle taken = remove(best);
      return Memory(*this, taken.data, taken.size_bytes);
    }
  }
  void* data = TUTTI_TRY(allocate(wanted));
  std::lock_guard lock(mutex_);
  idle_.reserve(++made_ + 1);  // so that giving it back cannot fail
  return Memory(*this, data, wanted);
}

Result<void*> StagingPool::allocate(uint64_t size_bytes) {
  void* data = TUTTI_TRY(registry_.allocate(size_bytes));
  if (!pinning_.begin) return data;
  Status pinned = pinning_.begin({static_cast<std::byte*>(data), size_bytes});
  if (pinned.ok()) return data;
  (void)registry_.free(data);
  return std::move(pinned).within(fmt::format("cannot pin {} bytes of host memory", size_bytes));
}

void StagingPool::free(void* data) noexcept {
  if (!pinning_.end || pinning_.end(static_cast<std::byte*>(data))) (void)registry_.free(data);
}

void StagingPool::put_back(void* data, uint64_t size_bytes) noexcept {
  if (size_bytes > kMostIdleBytes && !pinning_.begin) return free(data);
  std::unique_lock lock(mutex_);
  idle_.push_back({data, size_bytes});
  idle_bytes_ += size_bytes;
  while (!pinning_.begin && (idle_bytes_ > kMostIdleBytes || idle_.size() > kMostIdle)) {
    Idle dropped = remove(0);
    lock.unlock();  // communicators are told
    free(dropped.data);
    lock.lock();
  }
}

uint64_t StagingPool::idle_bytes() const {
  std::lock_guard lock(mutex_);
  return idle_bytes_;
}

}  // namespace tutti
