// A management library without GPUs, for tests: four of compute capability 9.0. The first three have links to two
// switches, of which one of the last GPU's is down, the third one has a link to the fourth too.
#include <cstdio>
#include <cstring>
#include <vector>

namespace {

struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char bus_id[32];
};
struct Memory {
  unsigned long long total, free, used;
};
struct Link {
  unsigned bus;
  int type;  // 0: a GPU, 2: a switch
  unsigned is_active;
};
struct Gpu {
  unsigned bus;
  std::vector<Link> links;
};

const std::vector<Gpu>& gpus() {
  static const std::vector<Gpu> all = {
      {0x19, {{0x05, 2, 1}, {0x05, 2, 1}, {0x06, 2, 1}}},
      {0x9a, {{0x05, 2, 1}, {0x06, 2, 1}, {0x06, 2, 1}}},
      {0xba, {{0x05, 2, 1}, {0xda, 0, 1}}},
      {0xda, {{0xba, 0, 1}, {0x05, 2, 0}}},
  };
  return all;
}

int starts = 0;

const Gpu& at(void* device) { return *static_cast<const Gpu*>(device); }

int give(unsigned bus, PciInfo* pci) {
  std::memset(pci, 0, sizeof *pci);
  pci->bus = bus;
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", bus);
  return 0;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
int nvmlInit_v2() { return ++starts, 0; }
int nvmlShutdown() { return --starts, 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(gpus().size());
  return starts == 1 ? 0 : 1;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = const_cast<Gpu*>(&gpus()[index]);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, PciInfo* pci) { return give(at(device).bus, pci); }
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) { return *major = 9, *minor = 0, 0; }
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) { return memory->total = 150'000'000'000, 0; }
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* is_active) {
  if (link >= at(device).links.size()) return 2;
  *is_active = at(device).links[link].is_active;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, PciInfo* pci) {
  return give(at(device).links[link].bus, pci);
}
#ifndef FAKE_NVML_IS_OLD
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* type) {
  *type = at(device).links[link].type;
  return 0;
}
#endif
}
#pragma GCC visibility pop
