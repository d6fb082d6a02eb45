// What must hold for every Topology, merged or read from a file.
#pragma once

#include "base/status.h"
#include "topology/topology.h"

namespace tutti {

// Errors: no rank; an unknown forced transport; hosts of different byte order; two ranks that cannot be linked, by
// name.
Status check_topology(const Topology& topology);

// Fills hosts[].ranks and ranks[].local_rank from ranks[].host.
void number_local_ranks(Topology& topology);

}  // namespace tutti
