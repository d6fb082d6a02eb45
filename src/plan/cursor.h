// The order in which one rank's part runs: walks its sections, rounds and steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>

#include "plan/plan.h"
#include "plan/resolve.h"

namespace tutti {

inline int largest_lag(const Section& section) {
  int lag = 0;
  for (const Step& step : section.steps) lag = std::max<int>(lag, step.lag);
  return lag;
}

// How many slices a chunk has on the channel in question; at least 1.
using SliceCounts = std::function<uint64_t(int chunk)>;

// From 1 to `most`, without any pattern.
inline uint64_t some_slices(int chunk, uint64_t seed, uint64_t most) {
  return ((static_cast<uint64_t>(chunk) + 1) * 0x9e3779b97f4a7c15 * (2 * seed + 1) >> 40) % most + 1;
}

class Cursor {
 public:
  // `part` and `facts`, which are of one another, outlive the Cursor.
  Cursor(const RankPlan& part, const PartFacts& facts, SliceCounts slices)
      : part_(&part), facts_(&facts), slices_(std::move(slices)) {
    enter_section();
    settle();
  }

  bool done() const { return section_ == part_->sections.size(); }
  // While not done().
  size_t section() const { return section_; }
  size_t step_index() const { return step_; }
  const Step& step() const { return part_->sections[section_].steps[step_]; }
  uint64_t slice() const { return round_ - step().lag; }
  bool is_last_slice() const { return slice() + 1 == slices_of(step_); }
  void advance() {
    ++step_;
    settle();
  }

 private:
  // Once for a step that means no chunk.
  uint64_t slices_of(size_t step) const {
    int chunk = (*facts_)[section_].steps[step].chunk;
    return chunk == kNoChunk ? 1 : slices_(chunk);
  }
  void enter_section() {
    step_ = round_ = rounds_ = 0;
    if (done()) return;
    const auto& steps = part_->sections[section_].steps;
    for (size_t i = 0; i < steps.size(); ++i) rounds_ = std::max(rounds_, slices_of(i) + steps[i].lag);
  }
  bool runs() const { return round_ >= step().lag && round_ - step().lag < slices_of(step_); }

  // Moves on to the next step that runs.
  void settle() {
    while (!done()) {
      if (step_ < part_->sections[section_].steps.size()) {
        if (runs()) return;
        ++step_;
      } else if (++round_ < rounds_) {
        step_ = 0;
      } else {
        ++section_;
        enter_section();
      }
    }
  }

  const RankPlan* part_;
  const PartFacts* facts_;
  SliceCounts slices_;
  uint64_t rounds_ = 0;
  uint64_t round_ = 0;
  size_t section_ = 0;
  size_t step_ = 0;
};

}  // namespace tutti
