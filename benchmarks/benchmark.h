// The benchmark of one collective: every rank of the job calls it.
#pragma once

#include "options.h"

namespace tutti::bench {

// Joins the launcher's ranks, or starts threads that are the ranks; measures and checks every size, and prints the
// table on rank 0. Returns whether all results were right. Throws std::runtime_error with one sentence when a call
// fails.
bool run_benchmark(const Options& options);

}  // namespace tutti::bench
