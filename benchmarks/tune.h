// Which algorithm is the fastest at which size, measured, beside what the planner chooses.
#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace tutti::bench {

struct TuneOptions {
  std::vector<tutti_collective_t> collectives;
  std::string output;  // file; "": where communicators find it
  Options common;      // sizes, memory and transport of it
};

// Joins the launcher's ranks, measures every algorithm that can run at every size, prints the table on rank 0, which
// then stores it. Throws std::runtime_error with one sentence when a call fails or there is one rank only.
void run_tune(const TuneOptions& options);

}  // namespace tutti::bench
