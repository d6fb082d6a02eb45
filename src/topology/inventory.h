// Inventory: the raw facts of one host, as one rank sees it. A plain value: discovery makes it, `tutti topo --capture`
// records it, and a recorded one stands in for the machine anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti {

// Where a figure came from; a later one outranks an earlier one.
enum class Origin : uint8_t { kDefault, kSpec, kProbe, kUser };
std::string_view name_of(Origin origin);  // "default", "spec", "probe", "user"

struct Figure {
  uint64_t value = 0;
  Origin origin = Origin::kDefault;
  friend bool operator==(const Figure&, const Figure&) = default;
};

// Tells whether two processes share a kernel and can reach each other inside it.
struct HostIdentity {
  std::string boot_id;         // /proc/sys/kernel/random/boot_id
  uint64_t net_namespace = 0;  // inode numbers of /proc/self/ns/*
  uint64_t pid_namespace = 0;
  uint64_t mount_namespace = 0;
  uint64_t user_namespace = 0;
  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

struct NumaNode {
  int id = 0;
  std::vector<int> cpus;  // logical CPU numbers
  uint64_t memory_bytes = 0;
  friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

struct Cache {
  int level = 0;
  uint64_t size_bytes = 0;
  int instances = 0;     // on the whole host
  int cpus_sharing = 0;  // logical CPUs behind one instance
  friend bool operator==(const Cache&, const Cache&) = default;
};

struct Cpu {
  std::string architecture;  // "x86_64", "aarch64"
  std::string model;
  int packages = 0;
  int cores = 0;
  int logical_cpus = 0;
  std::vector<int> allowed_cpus;  // this process's affinity mask
  // CPUs that there are to run on; 1 at least.
  uint64_t usable() const {
    if (!allowed_cpus.empty()) return allowed_cpus.size();
    return logical_cpus > 0 ? static_cast<uint64_t>(logical_cpus) : 1;
  }
  friend bool operator==(const Cpu&, const Cpu&) = default;
};

// A device or bridge on the way from a device to the processors, and the PCIe link above it, as it runs now.
struct PciHop {
  std::string address;  // "0000:19:00.0"
  int generation = 0;   // of PCI Express; 0: unknown
  int lanes = 0;        // 0: unknown
  Figure bytes_per_s;   // payload in one direction; value 0: unknown
  friend bool operator==(const PciHop&, const PciHop&) = default;
};

// The NVLinks of a GPU that lead to one place.
struct NvLink {
  std::string peer;        // PCI address of a GPU of this host or of a switch
  bool to_switch = false;  // all switches of a host are one fabric, which joins all GPUs with links to any of them
  int links = 1;
  Figure bytes_per_s;      // of each, payload in one direction
  friend bool operator==(const NvLink&, const NvLink&) = default;
};

struct Nic {
  std::string name;                    // "eth0"
  std::string pci_address;             // "" for virtual devices
  std::vector<std::string> addresses;  // numeric IPv4 and IPv6, without prefix length
  uint64_t speed_mbps = 0;             // 0: unknown
  uint32_t mtu = 0;
  int numa_node = -1;
  bool up = false;
  bool loopback = false;
  bool rdma = false;             // reaches other hosts without the processors' help, whether or not it has addresses
  std::vector<PciHop> pci_path;  // from the device up; empty: virtual or unknown
  friend bool operator==(const Nic&, const Nic&) = default;
};

struct Gpu {
  std::string uuid;
  std::string model;
  std::string pci_address;
  int numa_node = -1;
  uint64_t memory_bytes = 0;
  int compute_capability = 0;    // 90 for 9.0; 0: unknown
  Figure memory_bytes_per_s;     // of its own memory, reads and writes together; value 0: unknown
  std::vector<PciHop> pci_path;  // from the device up; empty: unknown
  std::vector<NvLink> nvlinks;
  friend bool operator==(const Gpu&, const Gpu&) = default;
};

struct Limits {
  uint64_t memory_bytes = 0;        // physical
  uint64_t memory_limit_bytes = 0;  // the control group's, 0: none
  uint64_t memlock_bytes = 0;       // RLIMIT_MEMLOCK, UINT64_MAX: none
  uint64_t open_files = 0;          // RLIMIT_NOFILE
  uint64_t dev_shm_bytes = 0;       // size of /dev/shm, 0: absent
  int ptrace_scope = 0;             // Yama; 0 when Yama is absent
  friend bool operator==(const Limits&, const Limits&) = default;
};

// The most that a figure can be: 1 PB/s, 1 PB or 11 days, so that sums and products of figures stay in range.
inline constexpr uint64_t kMostOfAFigure = 1'000'000'000'000'000;
inline constexpr uint64_t kNeverStreams = kMostOfAFigure;
inline constexpr uint64_t kTcpBlockBytes = 256 << 10;
inline constexpr uint64_t kLargeTcpBlockBytes = 512 << 10;

// What two cores bring each other in calibration: large pieces, small ones whose last stores are waited for, and what
// each pulls, from and to.
inline constexpr uint64_t kLargePieceBytes = 64 << 10;
inline constexpr uint64_t kSettledBytes = 2 << 10;
inline constexpr uint64_t kPulledBytes = 2 << 20;

// What things cost on this host: measured once by calibration and stored, else these defaults of an ordinary server.
struct Costs {
  Figure copy_bytes_per_s{8'000'000'000};     // one core copying private memory much larger than the caches (payload)
  Figure reduce_bytes_per_s{6'000'000'000};   // one core, c = a + b in float32, payload of c, out of cache
  Figure cached_bytes_per_s{25'000'000'000};  // the same within L2
  Figure last_level_bytes_per_s{16'000'000'000};  // and within one core's part of the last level of caches
  Figure cached_copy_bytes_per_s{37'000'000'000};      // one core copying within L2
  Figure last_level_copy_bytes_per_s{24'000'000'000};  // and within its part of the last level
  Figure memory_bytes_per_s{32'000'000'000};  // all allowed cores copying at once, payload of all together
  // One core copies this much and more, and reads it, faster with stores past the caches; kNeverStreams: it never does.
  Figure streaming_bytes{16 << 20};
  Figure cache_line_ns{100};                  // a line's way from one core to another
  // One core copying what caches hold into memory that another one reads, and out of what that one has stored; and the
  // same of what is small, whose place both cores' caches hold.
  Figure slot_store_bytes_per_s{8'000'000'000};
  Figure slot_load_bytes_per_s{8'000'000'000};
  Figure small_slot_store_bytes_per_s{8'000'000'000};
  Figure small_slot_load_bytes_per_s{8'000'000'000};
  Figure slot_settle_ns{50};                  // of kSettledBytes: its last stores, behind which the core has gone on
  Figure wake_ns{15'000};                     // waking a process that sleeps on an eventfd, other core
  Figure yield_ns{800};                       // sched_yield hand-over to another process on the same core
  Figure pull_ns{1'000};                      // fixed cost of process_vm_readv
  Figure pull_bytes_per_s{6'250'000'000};     // and its bandwidth
  Figure tcp_ns{12'000};                      // loopback TCP, one way, small message
  Figure tcp_send_ns{4'500};                  // of it the call that sends, which does most of the protocol for both
  Figure tcp_receive_ns{1'500};               // and the one that receives
  // Loopback TCP, one stream of blocks of kTcpBlockBytes, and one in each direction at once, a core at each end; the
  // same of kLargeTcpBlockBytes, of which each end takes more on while the other one is at it.
  Figure tcp_bytes_per_s{2'500'000'000};
  Figure tcp_both_bytes_per_s{1'250'000'000};
  Figure large_tcp_bytes_per_s{2'500'000'000};
  Figure large_tcp_both_bytes_per_s{1'250'000'000};
  uint64_t measured_at_s = 0;                 // seconds since 1970; 0: not measured, or not known when
  friend bool operator==(const Costs&, const Costs&) = default;
};

struct Inventory {
  std::string hostname;
  std::string kernel;  // uname -r
  // The part of the network that it is in, whose hosts are nearer to each other than to others; "": unknown. And what
  // all of its hosts together send out of it, which is also what they get; value 0: unknown.
  std::string fabric;
  Figure fabric_bytes_per_s;
  HostIdentity identity;
  Cpu cpu;
  std::vector<NumaNode> numa_nodes;
  std::vector<Cache> caches;
  std::vector<Nic> nics;
  std::vector<Gpu> gpus;
  std::string gpu_note;  // why gpus is empty: "no CUDA driver"
  // What PCIe devices of two NUMA nodes exchange in one direction.
  Figure interconnect_bytes_per_s{16'000'000'000};
  Limits limits;
  Costs costs;
  friend bool operator==(const Inventory&, const Inventory&) = default;
};

// JSON, one schema with a version field (docs/topology.md). Equal values give equal text. Fields that are left out keep
// their defaults; parse errors have line, field and reason.
std::string to_json(const Inventory& inventory);
Result<Inventory> parse_inventory(std::string_view json);

}  // namespace tutti
