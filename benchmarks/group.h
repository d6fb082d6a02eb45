// What a group gains: a list of small tensors, as the gradients of a model are, all-reduced one by one and in a group.
#pragma once

#include <cstdint>

#include "options.h"

namespace tutti::bench {

struct GroupOptions {
  int tensors = 200;
  uint64_t min_bytes = 256;        // of one tensor; sizes between grow geometrically
  uint64_t max_bytes = 64 * 1024;
  int rounds = 30;
  Options common;                  // memory and transport of it
};

// Joins the launcher's ranks, measures both ways in turns, and prints medians and their ratio on rank 0. Returns
// whether all sums were right. Throws std::runtime_error with one sentence when a call fails.
bool run_group_benchmark(const GroupOptions& options);

}  // namespace tutti::bench
