// What the ranks of a host read and write of their callers' buffers in a collective.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace tutti {

// Input and output together; in place, what they share counts once.
struct Footprint {
  uint64_t all_bytes = 0;   // of the host's ranks
  uint64_t most_bytes = 0;  // of the one that has most
  bool half_by_one = false; // at least half of it is the root's, and others have the rest
};

// The ranks of a host that take part in a collective.
struct RanksOfHost {
  int all = 1;    // everywhere
  int local = 1;  // of these, on the host
  bool has_root = false;
};

// `size_bytes`: of the vector, or of all ranks' blocks together.
Footprint footprint_of(Collective collective, uint64_t size_bytes, bool in_place, const RanksOfHost& ranks);

}  // namespace tutti
