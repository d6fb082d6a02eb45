// Ranks in a ring, or a chain that is cut from one: those that are near each other are neighbours.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace tutti {

class Ring {
 public:
  // Odd channels run the other way round, which uses both directions of every link.
  Ring(const PlanShape& shape, int rank, int channel = 0);

  // The rank that is so many hops ahead.
  int along(int64_t hops) const {
    auto at = static_cast<int>((position_ + hops * direction_) % nranks_);
    return order_.empty() ? at : order_[at];
  }
  int back(int hops) const { return along(nranks_ - hops % nranks_); }
  int next() const { return along(1); }
  int previous() const { return along(nranks_ - 1); }

 private:
  const std::vector<int>& order_;
  int nranks_;
  int position_;
  int direction_;
};

}  // namespace tutti
