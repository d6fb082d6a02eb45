// What follows from one rank's steps alone: the chunk that each step is about, and when each message is released.
#pragma once

#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace tutti {

struct StepFacts {
  int chunk = kNoChunk;       // of all its places; kNoChunk for a bare signal
  bool payload = false;       // kPut, kWait: whether the message carries a piece
  int last_use = -1;  // kWait: the step of its section after which the message is released, itself when not used
};

struct SectionFacts {
  std::vector<StepFacts> steps;
  // group_end[i]: the end of the group (plan/group.h) that step i begins; 0 for the others of such a group.
  std::vector<size_t> group_end;
  // released[i]: the peers whose messages are released after step i, the last of its group.
  std::vector<std::vector<int>> released;
};

using PartFacts = std::vector<SectionFacts>;  // one per section

// Errors: the shape or a step breaks a rule of plan.h that one rank's part can show; they name rank, channel, section,
// step.
Status check_shape(const PlanShape& shape);
Result<PartFacts> resolve(const PlanShape& shape, const RankPlan& part, int rank, int channel);

// "rank 3, channel 0, section 1, step 12 (put output[3] -> rank 2)"
std::string place_of(const RankPlan& part, int rank, int channel, size_t section, size_t step);

}  // namespace tutti
