// How devices are connected to the processors, by what sysfs says.
#include <algorithm>

#include "discovery/facts.h"
#include "topology/pci.h"
#include "topology/wires.h"

namespace tutti {
namespace {

std::string file_of(const std::string& address, std::string_view name) {
  return fmt::format("/sys/bus/pci/devices/{}/{}", address, name);
}

// The fastest that the port can; 0: unknown. What it runs at is less while nothing is sent: GPUs save power.
int generation_of(SystemView& system, const std::string& address) {
  int most = 0;
  for (const char* name : {"max_link_speed", "current_link_speed"}) {
    most = std::max(most, parse_pcie_generation(system.read_file(file_of(address, name)).value_or("")));
  }
  return most;
}

int lanes_of(SystemView& system, const std::string& address) {
  int64_t lanes = read_number(system, file_of(address, "current_link_width")).value_or(0);
  return lanes < 0 || lanes > kMostPcieLanes ? 0 : static_cast<int>(lanes);  // 255: the port does not tell
}

PciHop hop_of(SystemView& system, const std::string& address, const std::string& port_above) {
  PciHop hop{.address = address, .generation = generation_of(system, address), .lanes = lanes_of(system, address)};
  int above = port_above.empty() ? 0 : generation_of(system, port_above);
  if (above != 0) hop.generation = std::min(hop.generation, above);
  hop.bytes_per_s = pcie_bytes_per_s(hop.generation, hop.lanes);
  return hop;
}

}  // namespace

std::vector<PciHop> pci_path_on(SystemView& system, std::string_view path) {
  std::vector<std::string> addresses;  // from the processors on
  while (!path.empty()) {
    size_t slash = std::min(path.find('/'), path.size());
    if (is_pci_address(path.substr(0, slash))) addresses.emplace_back(path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  std::vector<PciHop> hops;
  // From the processors on there are a root port, then of each switch a port upwards and one downwards, then the
  // device: every other one has a link above it, the rest are parts of one chip.
  for (size_t i = addresses.size(); i-- > 0;) {
    bool has_link = i % 2 == 1 || i + 1 == addresses.size();
    std::string port_above = i == 0 ? "" : addresses[i - 1];
    hops.push_back(has_link ? hop_of(system, addresses[i], port_above) : PciHop{.address = addresses[i]});
  }
  return hops;
}

int numa_node_of(SystemView& system, const std::string& pci_address) {
  return static_cast<int>(std::max<int64_t>(-1, read_number(system, file_of(pci_address, "numa_node")).value_or(-1)));
}

}  // namespace tutti
