// The parts of discovery, one per kind of fact.
#pragma once

#include <hwloc.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "discovery/system_view.h"
#include "topology/inventory.h"

namespace tutti {

// cpu, numa_nodes and caches of `inventory`; the process's part of `cpu` is already there.
void discover_cpus(hwloc_topology_t topology, Inventory& inventory);

std::vector<Nic> discover_nics(SystemView& system, const std::vector<Interface>& interfaces);

// Adds to `nics` what they are to RDMA, and the ports of RDMA devices that are no interfaces.
void discover_rdma(SystemView& system, std::vector<Nic>& nics);

std::vector<Gpu> discover_gpus(SystemView& system);

// The PCI functions on a path of sysfs such as "../../devices/pci0000:00/0000:00:03.0/0000:01:00.0/net/eth0", from the
// device up, with the links between them. Empty: it is on no PCI bus.
std::vector<PciHop> pci_path_on(SystemView& system, std::string_view path);

// -1: unknown.
int numa_node_of(SystemView& system, const std::string& pci_address);

Limits discover_limits(SystemView& system, const ProcessFacts& process);

// The smallest memory limit of this process's control groups (version 1 or 2), 0: none.
uint64_t cgroup_memory_limit(SystemView& system);

// The first whole number in a file; nullopt when there is no file or no number.
std::optional<int64_t> read_number(SystemView& system, const std::string& path);

}  // namespace tutti
