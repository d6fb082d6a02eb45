// RDMA devices, by what sysfs says. A port that is also a network interface is that interface, with `rdma`; another one
// is an interface of its own, named "mlx5_0:1".
#include <algorithm>
#include <charconv>

#include "discovery/facts.h"

namespace tutti {
namespace {

constexpr std::string_view kDevices = "/sys/class/infiniband";

std::string first_line(SystemView& system, const std::string& path) {
  std::string text = system.read_file(path).value_or("");
  return text.substr(0, text.find('\n'));
}

// Of "400 Gb/sec (4X NDR)".
uint64_t speed_mbps(std::string_view rate) {
  double gbps = 0;
  auto [end, failure] = std::from_chars(rate.data(), rate.data() + rate.size(), gbps);
  return failure == std::errc() && gbps > 0 && gbps < 1e6 ? static_cast<uint64_t>(gbps * 1000) : 0;
}

// The interfaces whose addresses the port has.
std::vector<std::string> interfaces_of(SystemView& system, const std::string& port) {
  std::vector<std::string> names;
  for (const std::string& entry : system.list_folder(port + "/gid_attrs/ndevs")) {
    std::string name = first_line(system, port + "/gid_attrs/ndevs/" + entry);
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

Nic port_alone(SystemView& system, const std::string& device, const std::string& number, const std::string& port) {
  Nic nic;
  nic.name = device + ":" + number;
  nic.rdma = true;
  nic.up = first_line(system, port + "/state").starts_with("4:");
  nic.speed_mbps = speed_mbps(first_line(system, port + "/rate"));
  nic.pci_path = pci_path_on(system, system.read_link(fmt::format("{}/{}", kDevices, device)).value_or(""));
  if (nic.pci_path.empty()) return nic;
  nic.pci_address = nic.pci_path.front().address;
  nic.numa_node = numa_node_of(system, nic.pci_address);
  return nic;
}

}  // namespace

void discover_rdma(SystemView& system, std::vector<Nic>& nics) {
  for (const std::string& device : system.list_folder(std::string(kDevices))) {
    std::string ports = fmt::format("{}/{}/ports", kDevices, device);
    for (const std::string& number : system.list_folder(ports)) {
      std::string port = ports + "/" + number;
      bool is_interface = false;
      for (const std::string& name : interfaces_of(system, port)) {
        auto nic = std::find_if(nics.begin(), nics.end(), [&](const Nic& each) { return each.name == name; });
        if (nic == nics.end()) continue;
        nic->rdma = is_interface = true;
      }
      if (!is_interface) nics.push_back(port_alone(system, device, number, port));
    }
  }
}

}  // namespace tutti
