// What follows from the measured costs of a rank's host for that rank alone: when its data path changes its ways, and
// how long it waits awake. Pure functions. Other ranks may decide otherwise, but for mapped_slots_for(), which is the
// same on all ranks of a host; what all must decide alike is in the Plan.
#pragma once

#include "base/config.h"
#include "executor/call.h"
#include "executor/collective_run.h"
#include "topology/topology.h"

namespace tutti {

DataPathOptions data_path_for(const Topology& topology, int rank);

// How many slots of a collective's stream are in use where the sender has mapped them; 0: all.
int mapped_slots_for(const Topology& topology, int rank, uint64_t slot_bytes);

// The options "spin_us" and "yield_us" win.
WaitPolicy wait_policy_for(const Topology& topology, int rank, const Config& config);
// The same of a thread that runs one of the channels of a large call, of which each rank has so many.
WaitPolicy worker_policy_for(const Topology& topology, int rank, int workers, const Config& config);

}  // namespace tutti
