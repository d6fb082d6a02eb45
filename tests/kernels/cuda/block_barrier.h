// Of the threads of a block, where each is a thread of the host. For tests.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>

namespace tutti::test {

class BlockBarrier {
 public:
  explicit BlockBarrier(uint32_t count) : count_(count) {}
  // Gives all of them whether any of them says so.
  bool arrive(bool mine) {
    std::unique_lock lock(mutex_);
    any_ = any_ || mine;
    if (++arrived_ == count_) {
      arrived_ = 0;
      result_ = std::exchange(any_, false);
      ++round_;
      changed_.notify_all();
      return result_;
    }
    uint64_t round = round_;
    changed_.wait(lock, [&] { return round_ != round; });
    return result_;
  }

 private:
  const uint32_t count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t arrived_ = 0;
  uint64_t round_ = 0;
  bool any_ = false;
  bool result_ = false;
};

}  // namespace tutti::test
