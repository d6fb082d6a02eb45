#include <algorithm>

#include "discovery/facts.h"

namespace tutti {
namespace {

Nic nic_of(SystemView& system, const Interface& interface) {
  Nic nic;
  nic.name = interface.name;
  nic.addresses = interface.addresses;
  nic.mtu = interface.mtu;
  nic.up = interface.up;
  nic.loopback = interface.loopback;
  std::string folder = "/sys/class/net/" + interface.name;
  // A /sys that was mounted in another network namespace may know another interface by this name.
  if (read_number(system, folder + "/ifindex") != interface.index) return nic;
  nic.speed_mbps = static_cast<uint64_t>(std::max<int64_t>(0, read_number(system, folder + "/speed").value_or(0)));
  nic.pci_path = pci_path_on(system, system.read_link(folder).value_or(""));
  if (!nic.pci_path.empty()) {
    nic.pci_address = nic.pci_path.front().address;
    nic.numa_node = numa_node_of(system, nic.pci_address);
  }
  return nic;
}

}  // namespace

std::vector<Nic> discover_nics(SystemView& system, const std::vector<Interface>& interfaces) {
  std::vector<Nic> nics;
  for (const Interface& interface : interfaces) nics.push_back(nic_of(system, interface));
  return nics;
}

}  // namespace tutti
