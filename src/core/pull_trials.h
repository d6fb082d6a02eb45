// PullTrials: whether the calls of one class should have private memory pulled by its receivers, or copied through
// slots. It depends on how near the ranks' processors are to each other, which changes while they run; so a few calls
// in a row take the two ways in turn, every now and then, and the others the one that was quicker.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <limits>

namespace tutti {

class PullTrials {
 public:
  using Duration = std::chrono::nanoseconds;

  // Before a call. By its number alone, so that in a trial all ranks go the same way.
  bool pulls() const { return in_trial() ? kPulls[position()] : prefers_pulls_; }
  // Whether the call after one that is not over yet goes the same way.
  bool stays() const { return position() >= kPulls.size() && position() + 1 < kPeriod; }
  // After it: how long it took. Calls of one class may differ in size by two.
  void took(Duration duration, uint64_t size_bytes) {
    double per_byte = static_cast<double>(duration.count()) / static_cast<double>(std::max<uint64_t>(size_bytes, 1));
    double& least = least_[pulls() ? 1 : 0];
    least = std::min(least, per_byte);
    go_on();
  }
  // Or that both ways are the same for it, since peers map all its memory. All ranks count the same calls.
  void was_alike() { go_on(); }

 private:
  // A call that goes the wrong way takes twice as long or so: that is 2 % of the time. They are not in turn, since
  // programs make two calls in turn.
  static constexpr std::array<bool, 4> kPulls = {false, true, true, false};
  static constexpr uint64_t kPeriod = 128;
  // How many calls before a trial count, too. Where other programs have the processors half of the time, so has the
  // whole of a trial now and then: the way that is taken anyhow is known by more calls, and stays unless the other one
  // was quicker than all of them. Also how many there are before the first trial, since a program may make so few that
  // it would take more than it can gain.
  static constexpr uint64_t kRecent = 16;
  static constexpr double kUnknown = std::numeric_limits<double>::infinity();

  uint64_t position() const { return calls_ % kPeriod; }
  bool in_trial() const { return position() < kPulls.size(); }

  void go_on() {
    bool is_known = least_[0] != kUnknown && least_[1] != kUnknown;
    if (position() == kPulls.size() - 1 && is_known) prefers_pulls_ = least_[1] < least_[0];
    ++calls_;
    if (position() == kPeriod - kRecent) least_ = {kUnknown, kUnknown};
  }

  uint64_t calls_ = kPeriod - kRecent;               // and those that would have been before
  std::array<double, 2> least_{kUnknown, kUnknown};  // ns per byte: through slots, pulled
  bool prefers_pulls_ = false;
};

}  // namespace tutti
