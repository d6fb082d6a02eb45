// Which steps run as one: the rule of plan.h, once for those who prove plans and those who run them.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/plan.h"

namespace tutti {

// The end of the group that begins with step `first`: a Copy or Reduce with the Puts right after it that send what it
// wrote, or Puts in a row of one and the same place (or none); all of one lag, and at most one Put to a peer. Every
// other step is alone.
size_t end_of_group(const std::vector<Step>& steps, size_t first);

}  // namespace tutti
