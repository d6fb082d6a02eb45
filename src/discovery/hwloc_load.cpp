#include "discovery/hwloc_load.h"

#include <hwloc.h>

#include <cerrno>

namespace tutti {
namespace {

Result<HwlocTopology> fresh() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Status(Code::kSystem, "cannot initialise hwloc: out of memory?");
  HwlocTopology topology(raw);
  unsigned long flags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
#if HWLOC_API_VERSION >= 0x00020800
  flags |= HWLOC_TOPOLOGY_FLAG_NO_DISTANCES | HWLOC_TOPOLOGY_FLAG_NO_MEMATTRS | HWLOC_TOPOLOGY_FLAG_NO_CPUKINDS;
#endif
  hwloc_topology_set_flags(raw, flags);
  return topology;
}

Result<HwlocTopology> loaded(HwlocTopology topology, std::string_view what) {
  errno = 0;
  if (hwloc_topology_load(topology.get()) != 0) return system_error(errno, what);
  return topology;
}

}  // namespace

void DestroyHwloc::operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }

Result<HwlocTopology> load_hwloc() {
  HwlocTopology topology = TUTTI_TRY(fresh());
  for (const char* component : {"x86", "pci", "opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"}) {
    // Fails for a component that this build of hwloc lacks, which is as good.
    hwloc_topology_set_components(topology.get(), HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  return loaded(std::move(topology), "hwloc cannot read this machine's topology; is /sys mounted?");
}

Result<HwlocTopology> load_hwloc_xml(const std::string& xml) {
  HwlocTopology topology = TUTTI_TRY(fresh());
  if (hwloc_topology_set_xmlbuffer(topology.get(), xml.c_str(), static_cast<int>(xml.size() + 1)) != 0) {
    return Status(Code::kInvalidArgument, "hwloc cannot read its XML; is it complete, and of hwloc 2?");
  }
  return loaded(std::move(topology), "hwloc cannot build a topology from its XML");
}

Result<HwlocTopology> load_hwloc_synthetic(const std::string& description) {
  HwlocTopology topology = TUTTI_TRY(fresh());
  if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0) {
    return error(Code::kInvalidArgument, "'{}' is no synthetic hwloc topology such as 'pack:2 numa:1 core:8 pu:2'",
                 description);
  }
  return loaded(std::move(topology), "hwloc cannot build the synthetic topology");
}

Result<std::string> hwloc_xml(hwloc_topology* topology) {
  char* buffer = nullptr;
  int size = 0;
  if (hwloc_topology_export_xmlbuffer(topology, &buffer, &size, 0) != 0) {
    return Status(Code::kSystem, "hwloc cannot write its XML");
  }
  std::string xml(buffer, static_cast<size_t>(size > 0 ? size - 1 : 0));  // without the final NUL
  hwloc_free_xmlbuffer(topology, buffer);
  return xml;
}

}  // namespace tutti
