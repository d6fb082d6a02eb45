// Which elements one rank's buffers hold in a call, before it and after it: what every rank can tell by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "collective.h"

namespace tutti::bench {

inline constexpr int kReduced = -1;

// A stretch of a buffer.
struct Piece {
  uint64_t first;     // element
  uint64_t count;     // elements
  uint64_t position;  // of the first one in the Pattern
  int source;         // the rank whose input it is, or kReduced
  friend bool operator==(const Piece&, const Piece&) = default;
};

// Positions in the Pattern are those in the vector or in the ranks' blocks one after the other: a rank that sends one
// block sends the positions at which the receiver will find it, a rank that sends blocks has all positions.
struct Layout {
  // `count` elements in the vector or, on average, in each block. `root` is not looked at where there is none.
  Layout(const CollectiveInfo& collective, uint64_t count, int rank, int ranks, int root);

  uint64_t total;                // elements of the vector, or of all blocks
  uint64_t count;                // of tutti_call_t
  std::vector<uint64_t> counts;  // of this rank's blocks; in the forms with counts they differ
  uint64_t send_count;           // elements of the send buffer; 0: not used
  uint64_t recv_count;
  uint64_t send_position;
  // In place both buffers are one, in which they begin here.
  uint64_t send_first = 0;
  uint64_t recv_first = 0;
  std::vector<Piece> results;    // of the receive buffer, in order, without gaps
};

}  // namespace tutti::bench
