// What sends and receives between two ranks reach, measured as osu_latency and osu_bw do. Ranks 0 and 1 are the two;
// the others sleep meanwhile.
#pragma once

#include "options.h"

namespace tutti::bench {

enum class PairMeasure {
  kLatency,    // half of what a message there and a message back take, with blocking calls
  kBandwidth,  // a window of messages that are under way at once, answered by a short one
};

struct PairOptions {
  PairMeasure measure = PairMeasure::kLatency;
  int window = 64;  // messages, of kBandwidth
  Options common;   // sizes, datatypes, memory, transport, and how often; `average` is rank 0's always
};

// So many of the largest messages have room in each of a rank's two buffers.
inline constexpr int kLargestPairMessages = 2;

// Joins the launcher's ranks, measures and checks every size, and prints the table on rank 0. Returns whether all data
// were right. Throws std::runtime_error with one sentence when a call fails, or there is only one rank.
bool run_pair_benchmark(const PairOptions& options);

}  // namespace tutti::bench
