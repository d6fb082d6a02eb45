// Discovery: from a machine to its Inventory.
#pragma once

#include "base/status.h"
#include "discovery/system_view.h"
#include "topology/inventory.h"

namespace tutti {

// Everything but costs, which stay at their defaults (see discovery/calibrate.h). What a machine does not tell is left
// unknown; errors only where nothing sensible could be said: no process facts, no hwloc topology.
// `known`: of the same machine by another process, or null.
Result<Inventory> discover(SystemView& system, const Inventory* known = nullptr);

// Of the machine that this process runs on; takes a few milliseconds. Less with `host_fd`, a file that holds what
// another process of this machine has found (-1: none): the process's own facts are looked at in any case, and the
// hardware too where the file is unusable or the other process saw another machine.
Result<Inventory> discover_live(int host_fd = -1);

}  // namespace tutti
