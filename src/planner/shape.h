// What the algorithms' shapes have in common.
#pragma once

#include <string>
#include <string_view>

#include "base/arithmetic.h"
#include "planner/planner.h"

namespace tutti {

// A channel for each worker in large calls, or for each RDMA port that ranks use side by side (kUsualChannels at most;
// also where only some ranks know the sizes), else one, unless the user says otherwise; slices that are as large as a
// core's own cache allows, or as slots, where RDMA devices move them: each costs its messages, and where slices do not
// overlap, no other rank waits for the first of them.
PlanShape basic_shape(std::string_view algorithm, const Topology& topology, const Request& request,
                      const Tuning& tuning, int chunks = 1, int least_channels = 1);
// The same for an algorithm in which a rank passes slices on while it receives further ones: a few of them are under
// way at once.
PlanShape pipelined_shape(std::string_view algorithm, const Topology& topology, const Request& request,
                          const Tuning& tuning, int chunks = 1, int least_channels = 1);

// partial_growth() of the request.
uint32_t growth_of_partial_results(const Request& request);

// Whether every pair of ranks can map each other's memory.
bool all_mapped(const Topology& topology);

// "" or why not: algorithms where every rank talks to every other.
std::string admit_all_pairs(const Topology& topology);

}  // namespace tutti
