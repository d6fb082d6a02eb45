#include "discovery/discover.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>

#include "base/log.h"
#include "discovery/facts.h"
#include "discovery/live_system.h"

namespace tutti {
namespace {

std::string trimmed(std::string text) {
  size_t last = text.find_last_not_of(" \t\n");
  text.resize(last == std::string::npos ? 0 : last + 1);
  return text;
}

// The inode number in "net:[4026531833]", 0 when unknown.
uint64_t namespace_inode(SystemView& system, std::string_view name) {
  std::string target = system.read_link(fmt::format("/proc/self/ns/{}", name)).value_or("");
  size_t open = target.find('[');
  uint64_t inode = 0;
  if (open != std::string::npos) std::from_chars(target.data() + open + 1, target.data() + target.size(), inode);
  return inode;
}

HostIdentity discover_identity(SystemView& system) {
  return {trimmed(system.read_file("/proc/sys/kernel/random/boot_id").value_or("")), namespace_inode(system, "net"),
          namespace_inode(system, "pid"), namespace_inode(system, "mnt"), namespace_inode(system, "user")};
}

// From its start, wherever others that share it have read to.
std::string text_of_file(int fd) {
  constexpr size_t kLongest = 4 << 20;
  std::string text;
  std::array<char, 16384> buffer;
  while (text.size() < kLongest) {
    ssize_t count = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return text;
}

// Why there are none.
std::string gpu_note(SystemView& system) {
  return system.has_library("libcuda.so.1") ? "a CUDA driver is installed, but its kernel module lists none"
                                            : "no CUDA driver";
}

}  // namespace

std::optional<int64_t> read_number(SystemView& system, const std::string& path) {
  std::string text = system.read_file(path).value_or("");
  int64_t number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() ? std::optional(number) : std::nullopt;
}

Result<Inventory> discover(SystemView& system, const Inventory* known) {
  ProcessFacts process = TUTTI_TRY(system.process());
  HostIdentity identity = discover_identity(system);
  bool is_known = known != nullptr && known->identity == identity && known->hostname == process.hostname;
  Inventory inventory = is_known ? *known : Inventory();
  inventory.hostname = process.hostname;
  inventory.kernel = process.kernel;
  inventory.identity = identity;
  inventory.cpu.architecture = process.architecture;
  inventory.cpu.allowed_cpus = process.allowed_cpus;
  inventory.limits = discover_limits(system, process);
  inventory.costs = {};
  if (is_known) return inventory;
  HwlocTopology topology = TUTTI_TRY(system.hwloc());
  discover_cpus(topology.get(), inventory);
  inventory.nics = discover_nics(system, TUTTI_TRY(system.interfaces()));
  discover_rdma(system, inventory.nics);
  inventory.gpus = discover_gpus(system);
  if (inventory.gpus.empty()) inventory.gpu_note = gpu_note(system);
  return inventory;
}

Result<Inventory> discover_live(int host_fd) {
  LiveSystem system;
  if (host_fd < 0) return discover(system);
  Result<Inventory> known = parse_inventory(text_of_file(host_fd));
  if (!known.ok()) log_debug("TUTTI_HOST_FD holds no facts of a host: {}", known.status().message());
  return discover(system, known.ok() ? &*known : nullptr);
}

}  // namespace tutti
