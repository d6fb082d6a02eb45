// Where the blocks of a call lie in the buffers of this rank.
#pragma once

#include <cstdint>
#include <vector>

#include "call.h"
#include "random.h"

namespace differential {

// In elements. No blocks: the buffer is not used on this rank.
struct Blocks {
  std::vector<uint64_t> counts;
  std::vector<uint64_t> displacements;
  bool packed = true;  // they follow each other, and displacements need not be said

  uint64_t extent() const;
};

struct Layout {
  Blocks send;
  Blocks recv;
  // Whether both are in one buffer, and where each begins there, in elements.
  bool in_place = false;
  uint64_t send_at = 0;
  uint64_t recv_at = 0;

  uint64_t extent() const;
};

// `own`: this rank's own numbers, for gaps.
Layout layout_of(const Call& call, const Job& job, Random& own);

}  // namespace differential
