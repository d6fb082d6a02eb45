// What the algorithms' shapes have in common.
#pragma once

#include <string>
#include <string_view>

#include "base/arithmetic.h"
#include "planner/planner.h"

namespace tutti {

// One channel unless the user says otherwise; slices that stay in cache on one host and are worth a packet train
// between hosts, and that are small enough for a few of them to overlap.
PlanShape basic_shape(std::string_view algorithm, const Topology& topology, const Request& request,
                      const Tuning& tuning, int chunks = 1, int channels = 1);

// partial_growth() of the request.
uint32_t growth_of_partial_results(const Request& request);

// Whether every pair of ranks can map each other's memory.
bool all_mapped(const Topology& topology);

// "" or why not: algorithms where every rank talks to every other.
std::string admit_all_pairs(const Topology& topology);

}  // namespace tutti
