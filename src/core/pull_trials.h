// PullTrials: whether the calls of one class should have private memory pulled by its receivers, or copied through
// slots. It depends on how near the ranks' processors are to each other, which changes while they run; so a few calls
// in a row take the two ways in turn, every now and then, and the others the one that was quicker.
//
// Whoever receives knows which that was. Where all ranks send and receive, each goes by what it found itself. A sender
// that receives nothing may be done with what slots hold before the others have anything: so in calls with a root
// receivers say what they wish (Peer::wish()), and senders go by that.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>

#include "base/types.h"

namespace tutti {

constexpr uint64_t kLeastTried = 64 * 1024;  // of a call: less is not worth a look at the clock

class PullTrials {
 public:
  // Of calls of about so many bytes. The first ones go the way that was quicker for smaller ones, if known.
  explicit PullTrials(uint64_t size_bytes, bool prefers_pulls = false)
      : to_trial_(size_bytes < kLarge ? 2 : 16),
        most_period_(size_bytes < kLarge ? 4 * kPeriod : kPeriod),
        prefers_pulls_(prefers_pulls) {}

  using Duration = std::chrono::nanoseconds;

  // Before a call. By its number alone, so that in a trial all ranks go the same way.
  bool pulls() const { return in_trial() ? kPulls[tried_] : prefers_pulls_; }
  // Whether this one goes neither way by choice, but to see how long it takes.
  bool in_trial() const { return to_trial_ == 0; }
  // What was quicker so far.
  bool prefers_pulls() const { return prefers_pulls_; }
  // Whether the call after one that is not over yet goes the same way.
  bool stays() const { return to_trial_ > 1 && !is_looked_at(since_change_ + 1); }
  // After it: how long it took. Calls of one class may differ in size by two.
  void took(Duration duration, uint64_t size_bytes) {
    times_[pulls() ? 1 : 0].add(static_cast<double>(duration.count()) /
                                static_cast<double>(std::max<uint64_t>(size_bytes, 1)));
    if (since_change_ > 0 && !in_trial() && is_looked_at(++since_change_) && is_other_quicker()) change_back();
    go_on();
  }
  // Or that both ways are the same for it, since peers map all its memory. All ranks count the same calls.
  void was_alike() { go_on(); }

 private:
  // Not in turn, since programs make two calls in turn. A call that goes the wrong way takes up to five times as long.
  static constexpr std::array<bool, 4> kPulls = {false, true, true, false};
  // Calls from the end of a trial to the next one: that many after the first, twice as many after each further one. The
  // first comes soon; but the first call of all is slow, so that there are others to set it against. And a program may
  // make so few of large calls that a trial would take more than it can gain.
  static constexpr uint64_t kPeriod = 124;
  static constexpr uint64_t kLarge = 32 << 20;
  // A few calls through slots between others are quicker than many, since what they are written to has left the
  // receiver's caches meanwhile. So a way that is new is looked at again after 8, 16, 32 calls and so on; and the more
  // often it had to be given up, the more trials are passed over before it is taken again.
  static constexpr uint64_t kLeastLookedAt = 8;
  static constexpr int kMostGivenUp = 3;
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

  void go_on() {
    if (!in_trial()) {
      --to_trial_;
      return;
    }
    if (++tried_ < kPulls.size()) return;
    decide();
    tried_ = 0;
    to_trial_ = period_;
    period_ = std::min(2 * period_, most_period_);
  }
  void decide() {
    if (passed_over_ > 0) {
      --passed_over_;
    } else if (is_other_quicker()) {
      prefers_pulls_ = !prefers_pulls_;
      since_change_ = 1;
    } else if (std::exchange(since_change_, 0) > 0) {
      given_up_ = 0;
    }
  }
  bool is_other_quicker() const {
    const Times& taken = times_[prefers_pulls_ ? 1 : 0];
    const Times& other = times_[prefers_pulls_ ? 0 : 1];
    return !taken.is_empty() && !other.is_empty() && other.usual() < kWorthIt * taken.usual();
  }
  static bool is_looked_at(uint64_t since_change) {
    return since_change >= kLeastLookedAt && std::has_single_bit(since_change);
  }
  void change_back() {
    prefers_pulls_ = !prefers_pulls_;
    since_change_ = 0;
    given_up_ = std::min(given_up_ + 1, kMostGivenUp);
    passed_over_ = (1 << given_up_) - 1;
  }

  uint64_t to_trial_;           // calls until the next one; 0: it is going on,
  size_t tried_ = 0;            // with so many calls so far
  uint64_t period_ = kPeriod;
  uint64_t most_period_;
  std::array<Times, 2> times_;  // through slots, pulled
  bool prefers_pulls_;
  uint64_t since_change_ = 0;   // calls that have gone the new way, and one; 0: it is not new
  int given_up_ = 0;            // how often in a row a new way was
  int passed_over_ = 0;         // trials that are not decided
};

// Which bit stands for the wishes of calls of a class: 0 if they have no root. `size_class_bytes`: of the plan.
constexpr uint32_t pull_class(Collective collective, uint64_t size_class_bytes) {
  constexpr Collective kWithRoot[] = {TUTTI_BROADCAST, TUTTI_REDUCE, TUTTI_GATHER, TUTTI_SCATTER};
  constexpr int kSizes = 8, kLeastWidth = std::bit_width(kLeastTried);
  const auto* found = std::find(std::begin(kWithRoot), std::end(kWithRoot), without_counts(collective));
  if (found == std::end(kWithRoot)) return 0;
  int size = std::clamp(static_cast<int>(std::bit_width(size_class_bytes)) - kLeastWidth, 0, kSizes - 1);
  return uint32_t{1} << (static_cast<int>(found - kWithRoot) * kSizes + size);
}

}  // namespace tutti
