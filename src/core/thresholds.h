// What follows from the measured costs of a rank's host for that rank alone: when its data path changes its ways, and
// how long it waits awake. Pure functions. Other ranks may decide otherwise, but for mapped_slots_for(), which is the
// same on all ranks of a host, and least_mapped_slots(), the same on all; what else all decide alike is in the Plan.
#pragma once

#include "base/config.h"
#include "core/arguments.h"
#include "executor/call.h"
#include "executor/collective_run.h"
#include "topology/topology.h"

namespace tutti {

DataPathOptions data_path_for(const Topology& topology, int rank);

// Whether this rank stores results past the caches in a call that is planned for so many bytes: those in its own
// output, and those that it stores into other ranks'.
bool streams_results(const Topology& topology, int rank, Collective collective, int root, const Geometry& geometry,
                     uint64_t planned_bytes);

// How the slots of a collective's stream are used where the sender has mapped them.
MappedSlots mapped_slots_for(const Topology& topology, int rank, uint64_t slot_bytes);

// Of all hosts the fewest slots, and the least payload that goes through two: what a plan that all ranks run is held
// against, alike on all of them.
MappedSlots least_mapped_slots(const Topology& topology, const StreamLayout& layout);

// The options "spin_us" and "yield_us" win.
WaitPolicy wait_policy_for(const Topology& topology, int rank, const Config& config);
// The same of a thread that runs one of the channels of a large call, of which each rank has so many.
WaitPolicy worker_policy_for(const Topology& topology, int rank, int workers, const Config& config);

}  // namespace tutti
