// Time that is left. Every wait in tutti takes one of these.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tutti {

using Clock = std::chrono::steady_clock;

class Deadline {
 public:
  // At most 30 years away, so that no sum overflows; a negative time has passed.
  static Deadline after_ms(int64_t timeout_ms) {
    constexpr int64_t kMostMs = int64_t{1000} * 3600 * 24 * 365 * 30;
    return Deadline(Clock::now() + std::chrono::milliseconds(std::clamp<int64_t>(timeout_ms, -1, kMostMs)));
  }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  bool passed() const { return at_ != Clock::time_point::max() && Clock::now() >= at_; }
  // For poll(2) and its kin: rounded up, at most `cap_ms`, 0 when passed.
  int left_ms(int64_t cap_ms = 1'000'000) const {
    if (at_ == Clock::time_point::max()) return static_cast<int>(cap_ms);
    auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, cap_ms));
  }
  Clock::time_point at() const { return at_; }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace tutti
