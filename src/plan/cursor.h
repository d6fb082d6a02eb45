// The order in which one rank's part runs: walks its sections, rounds and steps.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan/plan.h"

namespace tutti {

inline int largest_lag(const Section& section) {
  int lag = 0;
  for (const Step& step : section.steps) lag = std::max<int>(lag, step.lag);
  return lag;
}

class Cursor {
 public:
  // `part` outlives the Cursor; slices >= 1.
  Cursor(const RankPlan& part, uint64_t slices) : part_(&part), slices_(slices) {
    enter_section();
    settle();
  }

  bool done() const { return section_ == part_->sections.size(); }
  // While not done().
  size_t section() const { return section_; }
  size_t step_index() const { return step_; }
  const Step& step() const { return part_->sections[section_].steps[step_]; }
  uint64_t slice() const { return round_ - step().lag; }
  void advance() {
    ++step_;
    settle();
  }

 private:
  void enter_section() {
    step_ = round_ = 0;
    if (done()) return;
    const Section& section = part_->sections[section_];
    rounds_ = section.repeat == Repeat::kOnce ? 1 : slices_ + largest_lag(section);
  }
  bool runs() const { return round_ >= step().lag && round_ - step().lag < slices_; }

  // Moves on to the next step that runs.
  void settle() {
    while (!done()) {
      if (step_ < part_->sections[section_].steps.size()) {
        if (runs()) return;
        ++step_;
      } else if (step_ > 0 && ++round_ < rounds_) {
        step_ = 0;
      } else {
        ++section_;
        enter_section();
      }
    }
  }

  const RankPlan* part_;
  uint64_t slices_;
  uint64_t rounds_ = 0;
  uint64_t round_ = 0;
  size_t section_ = 0;
  size_t step_ = 0;
};

}  // namespace tutti
