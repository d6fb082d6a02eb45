// PullTrials: whether the calls of one class should have private memory pulled by its receivers, or copied through
// slots; or, of messages, one half of it pulled and the other one pushed by its sender at the same time. It depends on
// how near the ranks' processors are to each other, and on what else a sender has to do, which changes while they run;
// so every now and then some calls in a row take the one way and as many each other one, and the rest take the one that
// was quicker.
//
// Whoever receives knows which that was, and tells its senders what it wishes (Peer::wish()).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "base/status.h"
#include "base/types.h"
#include "executor/stream_layout.h"
#include "plan/payload_sizes.h"

namespace tutti {

// In the order of their trials.
enum class DataWay : uint8_t {
  kSlots,   // copied through slots
  kPulled,  // pulled by the receiver
  kHalves,  // one half so, and the other one pushed by the sender at the same time
};

class PullTrials {
 public:
  // Of calls of about so many bytes. The first ones go this way. `most`: the last one that there is.
  explicit PullTrials(uint64_t size_bytes, DataWay preferred = DataWay::kSlots, DataWay most = DataWay::kPulled)
      : row_(size_bytes < kVeryLarge ? kRow : kRowOfVeryLarge),
        most_period_(std::clamp(kBytesOfPeriod / std::max<uint64_t>(size_bytes, 1), kLeastPeriod, kMostPeriod)),
        to_settle_(std::clamp(kRingBytes / std::max<uint64_t>(size_bytes, 1), row_.settling, kMostPassed)),
        preferred_(preferred),
        most_(most) {}
  // The first ones go the way of smaller ones; if those have been tried, these need not be soon.
  PullTrials(uint64_t size_bytes, const PullTrials& smaller)
      : PullTrials(size_bytes, smaller.preferred_, smaller.most_) {
    was_tried_ = smaller.was_tried_;
    if (!was_tried_) return;
    to_trial_ = size_bytes < kLarge ? kSoon : kSoon / 4;
    to_settle_ = row_.settling;
  }

  using Duration = std::chrono::nanoseconds;

  // Before a call. By its number alone, so that in a trial all ranks go the same way.
  DataWay way() const { return in_trial() ? tried_way() : preferred_; }
  bool pulls() const { return way() != DataWay::kSlots; }
  // Whether this one goes no way by choice, but to see how long it takes.
  bool in_trial() const { return to_trial_ == 0; }
  // What was quicker so far.
  DataWay preferred() const { return preferred_; }
  bool prefers_pulls() const { return preferred_ != DataWay::kSlots; }
  // Whether the call after one that is not over yet goes the same way.
  bool stays() const { return to_trial_ > 1; }
  // After it: how long it took. Calls of one class may differ in size by two.
  void took(Duration duration, uint64_t size_bytes) {
    if (!is_settling()) {
      times_of(way()).add(static_cast<double>(duration.count()) /
                          static_cast<double>(std::max<uint64_t>(size_bytes, 1)));
    }
    go_on();
  }
  // Or that it shows nothing: nothing was received that could have been pulled. All ranks count the same calls.
  void showed_nothing() { go_on(); }

 private:
  // In a trial, of each way. The first ones do not count: what the way before has left in the caches makes them up to
  // ten times as quick or as slow as the many in a row that are to be foretold. The first trial of all goes through all
  // of the slots' memory, which nobody may have touched. What counts of two ways is six or three calls apart, or twice
  // as many, so that calls which differ in turn, two or three of them, are compared with their like.
  struct Row {
    uint64_t settling;
    uint64_t counted;
  };
  static constexpr Row kRow{.settling = 2, .counted = 4};
  // Each of these goes through the caches many times by itself; and a program may make few of them, of which one that
  // goes the wrong way takes up to five times as long.
  static constexpr Row kRowOfVeryLarge{.settling = 1, .counted = 2};
  static constexpr size_t kLeastKnown = 2;  // of those that count, since not all show something
  static constexpr uint64_t kRingBytes = 2 * StreamLayout::kRoomOfAllPeers;  // half of a call may be for each peer
  static constexpr uint64_t kMostPassed = 64;
  // Calls from the end of a trial to the next one: that many after the first, twice as many after each further one. A
  // call that goes the wrong way takes up to five times as long, and ten with more ranks than processors. The first
  // trial comes soon; where smaller calls were tried, a program may make so few of large ones that a trial would take
  // more than it can gain.
  static constexpr uint64_t kFirst = 2;
  static constexpr uint64_t kSoon = 128;
  static constexpr uint64_t kLeastPeriod = 512;
  static constexpr uint64_t kMostPeriod = 16 * 1024;
  static constexpr uint64_t kBytesOfPeriod = uint64_t{2} << 30;
  static constexpr uint64_t kLarge = 4 << 20, kVeryLarge = 32 << 20;
  // Another way is taken where it was so much quicker: a call to and fro costs more than the last percents gain.
  static constexpr double kWorthIt = 0.95;

  // What the newest calls of one way took, in ns per byte.
  class Times {
   public:
    void add(double ns_per_byte) { newest_[added_++ % newest_.size()] = ns_per_byte; }
    void forget() { added_ = 0; }
    bool are_known() const { return added_ >= kLeastKnown; }
    // What a quarter of them stay below, of two all: neither those that waited for another program nor a single one
    // that was quick by chance.
    double usual() const {
      auto sorted = newest_;
      auto count = static_cast<ptrdiff_t>(std::min<size_t>(added_, sorted.size()));
      auto quarter = sorted.begin() + std::max<ptrdiff_t>(1, count / 4);
      std::nth_element(sorted.begin(), quarter, sorted.begin() + count);
      return *quarter;
    }

   private:
    std::array<double, 8> newest_{};
    size_t added_ = 0;
  };

  Times& times_of(DataWay way) { return times_[static_cast<size_t>(way)]; }
  // Calls of a trial through slots, and of each other way.
  uint64_t through_slots() const { return to_settle_ + row_.counted; }
  uint64_t of_other_way() const { return row_.settling + row_.counted; }
  DataWay tried_way() const {
    if (tried_ < through_slots()) return DataWay::kSlots;
    return static_cast<DataWay>(1 + (tried_ - through_slots()) / of_other_way());
  }
  bool is_settling() const {
    if (!in_trial()) return false;
    if (tried_ < through_slots()) return tried_ < to_settle_;
    return (tried_ - through_slots()) % of_other_way() < row_.settling;
  }
  void go_on() {
    if (!in_trial()) {
      if (--to_trial_ > 0) return;
      // Those of the ways that are not taken are from another time.
      for (DataWay way : {DataWay::kSlots, DataWay::kPulled, DataWay::kHalves}) {
        if (way != preferred_) times_of(way).forget();
      }
      return;
    }
    if (++tried_ < through_slots() + static_cast<uint64_t>(most_) * of_other_way()) return;
    prefer_quickest();
    was_tried_ = true;
    tried_ = 0;
    to_settle_ = row_.settling;
    to_trial_ = period_;
    period_ = std::min(2 * period_, most_period_);
  }
  void prefer_quickest() {
    if (!times_of(preferred_).are_known()) return;
    double least = kWorthIt * times_of(preferred_).usual();
    for (DataWay way : {DataWay::kSlots, DataWay::kPulled, DataWay::kHalves}) {
      if (way == preferred_ || !times_of(way).are_known() || times_of(way).usual() >= least) continue;
      least = times_of(way).usual();
      preferred_ = way;
    }
  }

  Row row_;                     // of each way in a trial
  uint64_t to_trial_ = kFirst;  // calls until the next one; 0: it is going on,
  uint64_t tried_ = 0;          // with so many calls so far
  uint64_t period_ = kLeastPeriod;
  uint64_t most_period_;
  uint64_t to_settle_;          // calls through slots that do not count in the next trial
  std::array<Times, 3> times_;  // by way
  DataWay preferred_;
  DataWay most_;
  bool was_tried_ = false;  // these or smaller ones
};

constexpr Collective kKindsOfWishes[] = {TUTTI_ALL_REDUCE,     TUTTI_REDUCE,     TUTTI_BROADCAST, TUTTI_ALL_GATHER,
                                         TUTTI_REDUCE_SCATTER, TUTTI_ALL_TO_ALL, TUTTI_GATHER,    TUTTI_SCATTER};
constexpr int kSizesOfWishes = StreamLayout::kWishes / static_cast<int>(std::size(kKindsOfWishes));
// Which of a rank's wishes is of calls of this size; kNoWish: nothing is received in them. Types, operations and roots
// share it. `size_class_bytes`: of the plan; what is less than kLeastTried, and not tried, counts as that.
constexpr int wish_of(Collective collective, uint64_t size_class_bytes) {
  const auto* found = std::find(std::begin(kKindsOfWishes), std::end(kKindsOfWishes), without_counts(collective));
  if (found == std::end(kKindsOfWishes)) return kNoWish;
  int size = std::bit_width(size_class_bytes) - std::bit_width(kLeastTried);
  return static_cast<int>(found - kKindsOfWishes) * kSizesOfWishes + std::clamp(size, 0, kSizesOfWishes - 1);
}

// The trials of all a rank's calls, by their wish.
class TrialsByWish {
 public:
  // Those of calls of about so many bytes. To be asked for when such a call is made and not before, so that all ranks
  // begin theirs with the same call.
  PullTrials& of(int wish, uint64_t size_bytes) {
    TUTTI_CHECK(wish != kNoWish);
    auto at = trials_.lower_bound(wish);
    if (at != trials_.end() && at->first == wish) return at->second;
    bool has_smaller = at != trials_.begin() && std::prev(at)->first / kSizesOfWishes == wish / kSizesOfWishes;
    PullTrials trials = has_smaller ? PullTrials(size_bytes, std::prev(at)->second) : PullTrials(size_bytes);
    return trials_.emplace_hint(at, wish, trials)->second;
  }

 private:
  std::map<int, PullTrials> trials_;
};

}  // namespace tutti
