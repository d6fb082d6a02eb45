// PullTrials: whether the calls of one class should have private memory pulled by its receivers, or copied through
// slots. It depends on how near the ranks' processors are to each other, which changes while they run; so a few calls
// in a row take the two ways in turn, every now and then, and the others the one that was quicker.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tutti {

class PullTrials {
 public:
  // The first trial comes after so many calls.
  explicit PullTrials(uint64_t calls_before = kMostBefore) : calls_(kPeriod - std::min(calls_before, kMostBefore)) {}

  using Duration = std::chrono::nanoseconds;

  // Before a call. By its number alone, so that in a trial all ranks go the same way.
  bool pulls() const { return in_trial() ? kPulls[position()] : prefers_pulls_; }
  // Whether the call after one that is not over yet goes the same way.
  bool stays() const { return position() >= kPulls.size() && position() + 1 < kPeriod; }
  // After it: how long it took. Calls of one class may differ in size by two.
  void took(Duration duration, uint64_t size_bytes) {
    times_[pulls() ? 1 : 0].add(static_cast<double>(duration.count()) /
                                static_cast<double>(std::max<uint64_t>(size_bytes, 1)));
    go_on();
  }
  // Or that both ways are the same for it, since peers map all its memory. All ranks count the same calls.
  void was_alike() { go_on(); }

 private:
  // A call that goes the wrong way takes twice as long or so: that is 2 % of the time. They are not in turn, since
  // programs make two calls in turn.
  static constexpr std::array<bool, 4> kPulls = {false, true, true, false};
  static constexpr uint64_t kPeriod = 128;
  static constexpr uint64_t kMostBefore = 16;  // calls before the first trial
  // The other way is taken where it was so much quicker: a call to and fro costs more than the last percents gain.
  static constexpr double kWorthIt = 0.95;

  // What the newest calls of one way took, in ns per byte: those of the last trials, and for the way that is taken
  // anyhow as many from before the trial.
  class Times {
   public:
    void add(double ns_per_byte) { newest_[added_++ % newest_.size()] = ns_per_byte; }
    bool is_empty() const { return added_ == 0; }
    // What a quarter of them stay below: neither those that waited for another program, or come right after one that
    // went the other way, nor a single one that was quick by chance.
    double usual() const {
      auto sorted = newest_;
      auto count = static_cast<ptrdiff_t>(std::min<size_t>(added_, sorted.size()));
      auto quarter = sorted.begin() + count / 4;
      std::nth_element(sorted.begin(), quarter, sorted.begin() + count);
      return *quarter;
    }

   private:
    std::array<double, 8> newest_{};
    size_t added_ = 0;
  };

  uint64_t position() const { return calls_ % kPeriod; }
  bool in_trial() const { return position() < kPulls.size(); }

  void go_on() {
    if (position() == kPulls.size() - 1) decide();
    ++calls_;
  }
  void decide() {
    const Times& taken = times_[prefers_pulls_ ? 1 : 0];
    const Times& other = times_[prefers_pulls_ ? 0 : 1];
    if (taken.is_empty() || other.is_empty()) return;
    if (other.usual() < kWorthIt * taken.usual()) prefers_pulls_ = !prefers_pulls_;
  }

  uint64_t calls_;              // and those that would have been before
  std::array<Times, 2> times_;  // through slots, pulled
  bool prefers_pulls_ = false;
};

}  // namespace tutti
