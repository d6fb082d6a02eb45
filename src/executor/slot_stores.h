// SlotStores: whether payloads go into slots that others read by stores through the caches or past them. A slot's
// lines are in the peer's caches, which read them. Where its core is near they come from there at once, and are read
// again from there; where it is far they are taken away one by one, and a store past the caches takes a tenth of the
// time, but the receiver loads from memory then. Which it is depends on where the ranks run, and changes; so every now
// and then a few payloads are stored in both ways, and timed. To a place where the payload before went past the caches
// a store through them is quick, too, but only that one. So where payloads go past them a trial begins with one through
// them in each place, which does not count. Copies are tried apart from what is computed, since memcpy() may have
// instructions that need no line first, while a reduction's stores wait for each; functions of the program and partial
// results of narrow types, which are stored otherwise, count as computed, too. The sender alone decides: to the
// receiver the messages are the same.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/kernels.h"

namespace tutti {

// What a payload is to the rank that stores it.
enum class PayloadOrigin : uint8_t {
  kUnseen,    // it lies nowhere else in this rank's memory, and goes into the slot as it comes
  kCopied,    // that of a place in its memory, as it lies there
  kComputed,  // the result of a reduction, which can store it into the slot itself
};

class SlotStores {
 public:
  static constexpr uint64_t kLeastBytes = 1024;  // less is not worth a look at the clock

  SlotStores() {
    for (size_t i = 0; i < kSizes; ++i) {
      uint64_t places = kUntouchedBytes / (kLeastBytes << i);
      copied_[i].to_trial = computed_[i].to_trial = static_cast<uint32_t>(std::clamp(places, kLeastFirst, kMostFirst));
    }
  }

  // How the next payload of this size is stored.
  Store way(PayloadOrigin origin, uint64_t size_bytes) const {
    if (size_bytes < kLeastBytes || origin == PayloadOrigin::kUnseen) return Store::kCached;
    const Kind& kind = kind_of(origin, size_bytes);
    return (is_trial(origin, size_bytes) ? kind.tries_past() : kind.past_caches) ? Store::kStreaming : Store::kCached;
  }
  // Whether it is to be timed.
  bool is_trial(PayloadOrigin origin, uint64_t size_bytes) const {
    bool has_choice = kHasBoth && size_bytes >= kLeastBytes && origin != PayloadOrigin::kUnseen;
    return has_choice && is_due(kind_of(origin, size_bytes));
  }
  // Stores the next payload in the way that is best, or in the one that is tried; `places` for such payloads there are.
  // A byte of a copy in memory takes so long.
  void store(PayloadOrigin origin, std::byte* slot, const std::byte* from, uint64_t size_bytes, uint64_t places,
             float memory_ns_per_byte);
  // Whether it is to be stored from what lies elsewhere, and not by whatever computes that.
  bool are_apart(PayloadOrigin origin, uint64_t size_bytes) const {
    return is_trial(origin, size_bytes) || way(origin, size_bytes) == Store::kStreaming;
  }
  // After each payload, of whatever origin.
  void count(uint64_t size_bytes) {
    if (size_bytes < kLeastBytes) return;
    for (PayloadOrigin origin : {PayloadOrigin::kCopied, PayloadOrigin::kComputed}) {
      if (Kind& kind = kind_of(origin, size_bytes); kind.to_trial > 0) --kind.to_trial;
    }
  }
  // Of a payload that is to be timed: whether a trial begins with it. Then begin() it, before anything else.
  bool begins(PayloadOrigin origin, uint64_t size_bytes) const { return kind_of(origin, size_bytes).tried == 0; }
  // With so many places for such payloads.
  void begin(PayloadOrigin origin, uint64_t size_bytes, uint64_t places) {
    Kind& kind = kind_of(origin, size_bytes);
    kind.places = static_cast<uint32_t>(std::min(places, kMostPlaces));
    kind.least_ns_per_byte.fill(std::numeric_limits<float>::max());
  }
  // What a payload that was to be timed took; and a byte that is loaded from memory takes at most.
  void took(PayloadOrigin origin, uint64_t size_bytes, uint64_t ns, float memory_ns_per_byte) {
    Kind& kind = kind_of(origin, size_bytes);
    float& least = kind.least_ns_per_byte[kind.tries_past() ? 1 : 0];
    if (kind.tried++ < kind.settling()) return;
    least = std::min(least, static_cast<float>(ns) / static_cast<float>(size_bytes));
    if (kind.tried < kind.settling() + 2 * kOfEachWay) return;
    bool past_caches = kind.least_ns_per_byte[1] + memory_ns_per_byte < kind.least_ns_per_byte[0];
    bool is_new = past_caches != kind.past_caches;
    kind.past_caches = past_caches;
    kind.tried = 0;
    // Where payloads go past the caches each of the first ones of a trial takes up to ten times as long: of each origin
    // one payload in 64 is such a one at first, and one in 512 in the end, or in 32 where else the way could be wrong
    // for too long.
    uint32_t slow = kind.settling();
    kind.period = is_new ? std::clamp(kLeastPeriodOfSlow * slow, kLeastPeriod, kRarest)
                         : std::min(2 * kind.period, std::clamp(kMostPeriodOfSlow * slow, kMostPeriod, kRarest));
    kind.to_trial = kind.period;
  }

 private:
#ifdef __SSE2__
  static constexpr bool kHasBoth = true;
#else
  static constexpr bool kHasBoth = false;  // the kernels' stores past the caches are ordinary ones there
#endif
  static constexpr uint32_t kOfEachWay = 3;
  // The first trial comes at the earliest when a stream's payloads have been in all places of slots of 2 MiB together,
  // whose pages come with that; where there are fewer places (Spread), as beside near cores, they have been in each
  // more than once by then.
  static constexpr uint64_t kUntouchedBytes = 2 << 20, kLeastFirst = 24, kMostFirst = 256;
  static constexpr uint32_t kLeastPeriod = 64;
  static constexpr uint32_t kMostPeriod = 4096;
  static constexpr uint32_t kRarest = 32 * 1024;
  static constexpr uint32_t kLeastPeriodOfSlow = 64, kMostPeriodOfSlow = 512;  // for each that does not count
  static constexpr uint64_t kMostPlaces = 1024;

  // Payloads of one origin and about the same size.
  struct Kind {
    // Through the caches, at the beginning of a trial, which do not count.
    uint32_t settling() const { return past_caches ? places : 0; }
    // Of a payload of a trial: those through the caches come first, so that none goes where another one of the trial
    // went past them.
    bool tries_past() const { return tried >= settling() + kOfEachWay; }

    uint32_t places = 0;    // when the last trial began
    uint32_t to_trial = 0;  // payloads until the next one; 0: it is going on,
    uint32_t tried = 0;     // with so many so far
    uint32_t period = kLeastPeriod / 2;
    bool past_caches = false;
    std::array<float, 2> least_ns_per_byte{};  // through the caches, past them
  };
  static constexpr size_t kSizes = 9;  // powers of two, from kLeastBytes on
  using Kinds = std::array<Kind, kSizes>;

  static bool is_due(const Kind& kind) { return kind.to_trial == 0; }
  static size_t index_of(uint64_t size_bytes) {
    auto above = static_cast<size_t>(std::bit_width(size_bytes) - std::bit_width(kLeastBytes));
    return std::min(above, kSizes - 1);
  }
  const Kind& kind_of(PayloadOrigin origin, uint64_t size_bytes) const {
    return (origin == PayloadOrigin::kComputed ? computed_ : copied_)[index_of(size_bytes)];
  }
  Kind& kind_of(PayloadOrigin origin, uint64_t size_bytes) {
    return (origin == PayloadOrigin::kComputed ? computed_ : copied_)[index_of(size_bytes)];
  }

  Kinds copied_;
  Kinds computed_;
};

}  // namespace tutti
