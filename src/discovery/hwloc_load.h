// Loading hwloc topologies with what tutti needs and nothing else.
#pragma once

#include <string>

#include "discovery/system_view.h"

namespace tutti {

// Of this machine. About 1 ms on a small machine; devices, distances and the CPUID back end, which would run on every
// core, are left out.
Result<HwlocTopology> load_hwloc();
// Of another machine, from hwloc's XML or from a synthetic description ("pack:2 numa:1 core:8 pu:2").
Result<HwlocTopology> load_hwloc_xml(const std::string& xml);
Result<HwlocTopology> load_hwloc_synthetic(const std::string& description);

Result<std::string> hwloc_xml(hwloc_topology* topology);

}  // namespace tutti
