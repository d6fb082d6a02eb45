// Failure: the first error of something that several threads use, which stays.
#pragma once

#include <atomic>
#include <mutex>

#include "base/status.h"

namespace tutti {

class Failure {
 public:
  // Cheap; any thread.
  bool happened() const { return happened_.load(std::memory_order_acquire); }

  // Keeps `status` if it is the first. Returns whether it was.
  bool set(Status status) {
    std::lock_guard lock(mutex_);
    if (happened()) return false;
    status_ = std::move(status);
    happened_.store(true, std::memory_order_release);
    return true;
  }

  Status status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }
  // That of status(), without a copy of the sentence: it takes no memory.
  Code code() const {
    std::lock_guard lock(mutex_);
    return status_.code();
  }

 private:
  mutable std::mutex mutex_;
  Status status_;
  std::atomic<bool> happened_{false};
};

}  // namespace tutti
