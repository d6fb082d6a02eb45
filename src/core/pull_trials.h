// PullTrials: whether the calls of one class should have private memory pulled by its receivers, or copied through
// slots. It depends on how near the ranks' processors are to each other, which changes while they run; so a few calls
// in a row take the two ways in turn, every now and then, and the others the one that was quicker.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace tutti {

class PullTrials {
 public:
  // The first trial comes after so many calls, which go through slots.
  explicit PullTrials(uint64_t calls_before = 0) : calls_((kPeriod - calls_before) % kPeriod) {}

  using Duration = std::chrono::nanoseconds;

  // Before a call. By its number alone, so that in a trial all ranks go the same way.
  bool pulls() const { return in_trial() ? kPulls[position()] : prefers_pulls_; }
  // Whether the call after one that is not over yet goes the same way.
  bool stays() const { return position() >= kPulls.size() && position() + 1 < kPeriod; }
  // Instead, of a call whose memory nobody has to pull, or a slot to hold: all ranks count the same calls.
  void pass() { ++calls_; }
  // After it: how long it took. Calls of one class may differ in size by two.
  void took(Duration duration, uint64_t size_bytes) {
    if (in_trial()) {
      double per_byte = static_cast<double>(duration.count()) / static_cast<double>(std::max<uint64_t>(size_bytes, 1));
      double& least = least_[kPulls[position()] ? 1 : 0];
      least = position() == 0 || position() == 1 ? per_byte : std::min(least, per_byte);
      if (position() == kPulls.size() - 1) prefers_pulls_ = least_[1] < least_[0];
    }
    ++calls_;
  }

 private:
  // A call that goes the wrong way takes twice as long or so: that is 2 % of the time. Each way has a call that is not
  // the first of all; and not in turn, since programs make two calls in turn.
  static constexpr std::array<bool, 4> kPulls = {false, true, true, false};
  static constexpr uint64_t kPeriod = 128;

  uint64_t position() const { return calls_ % kPeriod; }
  bool in_trial() const { return position() < kPulls.size(); }

  uint64_t calls_;  // and those that were not, before the first trial
  std::array<double, 2> least_{};  // ns per byte: through slots, pulled
  bool prefers_pulls_ = false;
};

}  // namespace tutti
