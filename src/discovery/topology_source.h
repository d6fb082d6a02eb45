// The Topology to plan for when there are no ranks to ask: of this host, or from a file.
#pragma once

#include <string>

#include "base/config.h"
#include "base/status.h"
#include "topology/topology.h"

namespace tutti {

// This host, with the costs stored for it. Does not block.
Result<Inventory> discover_host(const Config& config);

// `nranks` processes on this host (0: one), or with a `file` those that it describes: a Topology (nranks: 0 or as many
// as it has), or an Inventory or recorded machine (as for this host). The option "transport" is forced as in a
// communicator. Errors name the file, line and reason.
Result<Topology> topology_for(const Config& config, const std::string& file, int nranks);

}  // namespace tutti
