// Discovery: from a machine to its Inventory.
#pragma once

#include "base/status.h"
#include "discovery/system_view.h"
#include "topology/inventory.h"

namespace tutti {

// Everything but costs, which stay at their defaults (see discovery/calibrate.h). What a machine does not tell is left
// unknown; errors only where nothing sensible could be said: no process facts, no hwloc topology.
Result<Inventory> discover(SystemView& system);

// Of the machine that this process runs on; takes a few milliseconds.
Result<Inventory> discover_live();

}  // namespace tutti
