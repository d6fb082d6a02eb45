#include <sstream>

#include "discovery/facts.h"

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

}  // namespace

// By what the kernel's driver says, so that nothing of CUDA is loaded or initialized.
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
  return gpus;
}

}  // namespace tutti
