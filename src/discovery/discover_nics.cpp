#include <algorithm>
#include <cctype>

#include "discovery/facts.h"

namespace tutti {
namespace {

// "0000:00:03.0"
bool is_pci_address(std::string_view text) {
  constexpr std::string_view kPattern = "xxxx:xx:xx.x";
  if (text.size() != kPattern.size()) return false;
  return std::equal(text.begin(), text.end(), kPattern.begin(), [](unsigned char c, char pattern) {
    return pattern == 'x' ? std::isxdigit(c) != 0 : c == static_cast<unsigned char>(pattern);
  });
}

// The last PCI function on a sysfs path such as "../../devices/pci0000:00/0000:00:03.0/virtio2/net/eth0"; "" for none.
std::string pci_address_on(std::string_view path) {
  std::string found;
  while (!path.empty()) {
    size_t slash = std::min(path.find('/'), path.size());
    if (is_pci_address(path.substr(0, slash))) found = path.substr(0, slash);
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return found;
}

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
  nic.pci_address = pci_address_on(system.read_link(folder).value_or(""));
  if (!nic.pci_address.empty()) {
    auto node = read_number(system, fmt::format("/sys/bus/pci/devices/{}/numa_node", nic.pci_address));
    nic.numa_node = static_cast<int>(std::max<int64_t>(-1, node.value_or(-1)));
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
