#include <algorithm>
#include <sstream>

#include "discovery/facts.h"
#include "topology/wires.h"

namespace tutti {
namespace {

constexpr const char* kGpus = "/proc/driver/nvidia/gpus";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// The value of "Model:   NVIDIA H200" in what the kernel's driver says of a GPU; "" when it says no such thing.
std::string value_in(const std::string& information, std::string_view name) {
  std::istringstream lines(information);
  for (std::string line; std::getline(lines, line);) {
    size_t colon = line.find(':');
    if (colon == std::string::npos || trimmed(std::string_view(line).substr(0, colon)) != name) continue;
    return std::string(trimmed(std::string_view(line).substr(colon + 1)));
  }
  return "";
}

// Of each GPU the links to one place together.
void add_nvlinks(const ManagedGpu& managed, Gpu& gpu) {
  for (const ManagedLink& link : managed.nvlinks) {
    auto same = std::find_if(gpu.nvlinks.begin(), gpu.nvlinks.end(), [&](const NvLink& each) {
      return each.peer == link.peer && each.to_switch == link.to_switch;
    });
    if (same != gpu.nvlinks.end()) {
      ++same->links;
    } else {
      gpu.nvlinks.push_back({link.peer, link.to_switch, 1, nvlink_bytes_per_s(gpu.compute_capability)});
    }
  }
}

}  // namespace

// By what the kernel's driver says, so that nothing of CUDA is loaded or initialized. The management library is asked
// where there may be something between GPUs.
std::vector<Gpu> discover_gpus(SystemView& system) {
  std::vector<Gpu> gpus;
  for (const std::string& address : system.list_folder(kGpus)) {
    auto information = system.read_file(fmt::format("{}/{}/information", kGpus, address));
    if (!information) continue;
    Gpu gpu;
    gpu.uuid = value_in(*information, "GPU UUID");
    gpu.model = value_in(*information, "Model");
    gpu.pci_address = address;
    gpu.numa_node = numa_node_of(system, address);
    gpu.pci_path = pci_path_on(system, system.read_link("/sys/bus/pci/devices/" + address).value_or(""));
    gpus.push_back(std::move(gpu));
  }
  if (gpus.size() < 2) return gpus;
  for (const ManagedGpu& managed : system.managed_gpus()) {
    for (Gpu& gpu : gpus) {
      if (gpu.pci_address != managed.pci_address) continue;
      gpu.compute_capability = managed.compute_capability;
      gpu.memory_bytes = managed.memory_bytes;
      add_nvlinks(managed, gpu);
    }
  }
  return gpus;
}

}  // namespace tutti
