#include "discovery/nvml.h"

#include <dlfcn.h>

#include <memory>

#include "base/log.h"
#include "topology/wires.h"

namespace tutti {
namespace {

// What is used of nvml.h, whose ABI NVIDIA keeps: each function's name has its version.
using Device = void*;
struct PciInfo {  // nvmlPciInfo_t
  char bus_id_legacy[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  char bus_id[32];
};
struct MemoryInfo {  // nvmlMemory_t
  unsigned long long total, free, used;
};
constexpr int kSuccess = 0;           // NVML_SUCCESS
constexpr int kInvalidArgument = 2;   // NVML_ERROR_INVALID_ARGUMENT: there is no such link
constexpr unsigned kActive = 1;       // NVML_FEATURE_ENABLED
constexpr int kSwitch = 2;            // NVML_NVLINK_DEVICE_TYPE_SWITCH

// X(name, parameters)
#define TUTTI_NVML_CALLS(X)                                               \
  X(nvmlInit_v2, ())                                                      \
  X(nvmlShutdown, ())                                                     \
  X(nvmlDeviceGetCount_v2, (unsigned* count))                             \
  X(nvmlDeviceGetHandleByIndex_v2, (unsigned index, Device* device))      \
  X(nvmlDeviceGetPciInfo_v3, (Device device, PciInfo* pci))               \
  X(nvmlDeviceGetCudaComputeCapability, (Device device, int* major, int* minor)) \
  X(nvmlDeviceGetMemoryInfo, (Device device, MemoryInfo* memory))         \
  X(nvmlDeviceGetNvLinkState, (Device device, unsigned link, unsigned* is_active)) \
  X(nvmlDeviceGetNvLinkRemotePciInfo_v2, (Device device, unsigned link, PciInfo* pci)) \
  X(nvmlDeviceGetNvLinkRemoteDeviceType, (Device device, unsigned link, int* type))

struct Nvml {
#define TUTTI_NVML_CALL(name, parameters) int(*name) parameters = nullptr;
  TUTTI_NVML_CALLS(TUTTI_NVML_CALL)
#undef TUTTI_NVML_CALL
};

std::string address_of(const PciInfo& pci) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
}

std::vector<ManagedLink> links_of(const Nvml& nvml, Device device) {
  std::vector<ManagedLink> links;
  for (unsigned link = 0; link < kMostNvLinks; ++link) {
    unsigned is_active = 0;
    int asked = nvml.nvmlDeviceGetNvLinkState(device, link, &is_active);
    if (asked == kInvalidArgument) break;
    PciInfo remote{};
    if (asked != kSuccess || is_active != kActive) continue;
    if (nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &remote) != kSuccess) continue;
    int type = 0;
    if (nvml.nvmlDeviceGetNvLinkRemoteDeviceType(device, link, &type) != kSuccess) continue;
    links.push_back({address_of(remote), type == kSwitch});
  }
  return links;
}

}  // namespace

std::vector<ManagedGpu> ask_nvml(const std::string& library) {
  struct Close {
    void operator()(void* handle) const { ::dlclose(handle); }
  };
  std::unique_ptr<void, Close> handle(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr) return {};
  Nvml nvml;
#define TUTTI_NVML_CALL(name, parameters)                                        \
  nvml.name = reinterpret_cast<decltype(nvml.name)>(::dlsym(handle.get(), #name)); \
  if (nvml.name == nullptr) {                                                    \
    log_debug("{} has no {}: NVLinks are unknown", library, #name);              \
    return {};                                                                   \
  }
  TUTTI_NVML_CALLS(TUTTI_NVML_CALL)
#undef TUTTI_NVML_CALL
  if (int failed = nvml.nvmlInit_v2(); failed != kSuccess) {
    log_debug("nvmlInit of {} gives {}: NVLinks are unknown", library, failed);
    return {};
  }
  std::vector<ManagedGpu> gpus;
  unsigned count = 0;
  if (nvml.nvmlDeviceGetCount_v2(&count) != kSuccess) count = 0;
  for (unsigned index = 0; index < count; ++index) {
    Device device = nullptr;
    PciInfo pci{};
    if (nvml.nvmlDeviceGetHandleByIndex_v2(index, &device) != kSuccess) continue;
    if (nvml.nvmlDeviceGetPciInfo_v3(device, &pci) != kSuccess) continue;
    ManagedGpu gpu{.pci_address = address_of(pci)};
    int major = 0, minor = 0;
    MemoryInfo memory{};
    if (nvml.nvmlDeviceGetCudaComputeCapability(device, &major, &minor) == kSuccess) {
      gpu.compute_capability = major * 10 + minor;
    }
    if (nvml.nvmlDeviceGetMemoryInfo(device, &memory) == kSuccess) gpu.memory_bytes = memory.total;
    gpu.nvlinks = links_of(nvml, device);
    gpus.push_back(std::move(gpu));
  }
  (void)nvml.nvmlShutdown();
  return gpus;
}

}  // namespace tutti
