#include "planner/algorithms/ring.h"

#include <algorithm>

namespace tutti {

Ring::Ring(const PlanShape& shape, int rank, int channel)
    : order_(shape.order), nranks_(shape.nranks), position_(rank), direction_(channel % 2 == 0 ? 1 : nranks_ - 1) {
  if (!order_.empty()) position_ = static_cast<int>(std::find(order_.begin(), order_.end(), rank) - order_.begin());
}

}  // namespace tutti
