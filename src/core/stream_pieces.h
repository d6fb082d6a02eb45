// A large call on a stream begins when its first slices are on the host, and the first of its results go back to the
// device while it runs. What lies in one piece are the same slices of all chunks, since a call goes through these
// together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/request.h"
#include "device/device.h"
#include "plan/plan.h"

namespace tutti {

struct CutCall {
  std::vector<StreamWork::Piece> before;
  std::vector<StreamWork::Piece> after;
  uint64_t slices_per_piece = 0;
};

// Whether that pays for an admitted call with so much to copy, and all ranks walk through its slices alike.
bool may_be_cut(const tutti_request& request, const StreamWork::Piece& before, const StreamWork::Piece& after);

// The pieces of what is copied, as a whole, before and after a call with such a plan; one of what cannot be cut.
// Nothing: the plan has too few slices.
std::optional<CutCall> cut_call(const tutti_request& request, const PlanShape& shape, int rank,
                                const StreamWork::Piece& before, const StreamWork::Piece& after);

}  // namespace tutti
