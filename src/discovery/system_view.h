// SystemView: everything that discovery asks of a machine. The live one asks this machine; a recorded one answers from
// a file, so that discovery itself is tested on machines that are not there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

struct hwloc_topology;

namespace tutti {

struct DestroyHwloc {
  void operator()(hwloc_topology* topology) const;
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyHwloc>;

// A network interface as the kernel lists it in this network namespace.
struct Interface {
  std::string name;
  int index = 0;
  bool up = false;  // configured up and with a carrier
  bool loopback = false;
  uint32_t mtu = 0;                    // 0: unknown
  std::vector<std::string> addresses;  // numeric IPv4 and IPv6; no link-local ones, which mean nothing on another host
  friend bool operator==(const Interface&, const Interface&) = default;
};

// What system calls say about this process and its kernel.
struct ProcessFacts {
  std::string hostname;
  std::string kernel;             // uname -r
  std::string architecture;       // uname -m
  std::vector<int> allowed_cpus;  // the affinity mask
  uint64_t memlock_bytes = 0;     // UINT64_MAX: no limit
  uint64_t open_files = 0;
  friend bool operator==(const ProcessFacts&, const ProcessFacts&) = default;
};

// What the GPUs' management library says of one of them.
struct ManagedLink {
  std::string peer;        // PCI address of what is at the other end
  bool to_switch = false;  // which is no GPU
  friend bool operator==(const ManagedLink&, const ManagedLink&) = default;
};
struct ManagedGpu {
  std::string pci_address;
  int compute_capability = 0;        // 90 for 9.0; 0: unknown
  uint64_t memory_bytes = 0;         // 0: unknown
  std::vector<ManagedLink> nvlinks;  // each that is up
  friend bool operator==(const ManagedGpu&, const ManagedGpu&) = default;
};

class SystemView {
 public:
  virtual ~SystemView() = default;

  // A file's contents, a symbolic link's target; nullopt when it is absent or may not be read. For files of the kernel,
  // not for data.
  virtual std::optional<std::string> read_file(const std::string& path) = 0;
  virtual std::optional<std::string> read_link(const std::string& path) = 0;
  // What a folder of the kernel's holds, ascending; empty when it is absent or may not be read.
  virtual std::vector<std::string> list_folder(const std::string& path) = 0;
  // The lines of /proc/self/mountinfo that are about control groups; the others are nobody's business.
  virtual std::vector<std::string> cgroup_mounts() = 0;
  // CPUs, caches and NUMA nodes, including those that this process may not use.
  virtual Result<HwlocTopology> hwloc() = 0;
  virtual Result<std::vector<Interface>> interfaces() = 0;
  virtual Result<ProcessFacts> process() = 0;
  // Size of the file system mounted at `path`, 0 when there is none.
  virtual uint64_t filesystem_bytes(const std::string& path) = 0;
  // None where no such library is installed.
  virtual std::vector<ManagedGpu> managed_gpus() = 0;
  // Whether the shared library can be opened, and, unless that is empty, has that function.
  virtual bool has_library(const std::string& name, const std::string& function = {}) = 0;
  // False where this process has no right to read and write the device file, or its container has not. It is opened for
  // that: permissions alone do not tell.
  virtual bool may_open(const std::string& path) = 0;
};

}  // namespace tutti
