// The parts of discovery, one per kind of fact.
#pragma once

#include <hwloc.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "discovery/system_view.h"
#include "topology/inventory.h"

namespace tutti {

// cpu, numa_nodes and caches of `inventory`; the process's part of `cpu` is already there.
void discover_cpus(hwloc_topology_t topology, Inventory& inventory);

std::vector<Nic> discover_nics(SystemView& system, const std::vector<Interface>& interfaces);

Limits discover_limits(SystemView& system, const ProcessFacts& process);

// The smallest memory limit of this process's control groups (version 1 or 2), 0: none.
uint64_t cgroup_memory_limit(SystemView& system);

// The first whole number in a file; nullopt when there is no file or no number.
std::optional<int64_t> read_number(SystemView& system, const std::string& path);

}  // namespace tutti
