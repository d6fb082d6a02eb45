#include "topology/tree.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <string_view>
#include <utility>

#include "topology/cpu_list.h"
#include "topology/topology.h"
#include "topology/units.h"

namespace tutti {
namespace {

void render_children(const TreeNode& node, const std::string& indent, std::string& text) {
  for (const TreeNode& child : node.children) {
    bool last = &child == &node.children.back();
    text += fmt::format("{}{} {}\n", indent, last ? "└─" : "├─", child.text);
    render_children(child, indent + (last ? "   " : "│  "), text);
  }
}

// What is not known is left out.
std::string cpu_text(const Cpu& cpu) {
  std::string text = fmt::format("cpu: {}", cpu.model.empty() ? cpu.architecture : cpu.model);
  if (cpu.packages != 0) text += fmt::format(", {}", count_text(cpu.packages, "package"));
  if (cpu.cores != 0) text += fmt::format(", {}", count_text(cpu.cores, "core"));
  text += fmt::format(", {}", count_text(cpu.logical_cpus, "logical CPU"));
  if (!cpu.allowed_cpus.empty()) text += fmt::format(", allowed {}", format_cpu_list(cpu.allowed_cpus));
  return text;
}

std::string cache_text(const Cache& cache) {
  std::string text = fmt::format("L{} {}", cache.level, bytes_text(cache.size_bytes));
  if (cache.instances > 1) text += fmt::format(" x {}", cache.instances);
  return cache.cpus_sharing > 1 ? text + fmt::format(" (each for {} CPUs)", cache.cpus_sharing) : text;
}

std::string nic_text(const Nic& nic) {
  std::string text = fmt::format("nic {}: {}", nic.name, nic.up ? "up" : "down");
  if (nic.rdma) text += ", rdma";
  if (nic.loopback) text += ", loopback";
  if (nic.speed_mbps != 0) {
    text += fmt::format(", {:g} Gbit/s", static_cast<double>(nic.speed_mbps) / 1000);
  } else if (!nic.loopback) {
    text += ", speed unknown";
  }
  if (nic.mtu != 0) text += fmt::format(", mtu {}", nic.mtu);
  if (!nic.pci_address.empty()) text += fmt::format(", pci {}", nic.pci_address);
  if (nic.numa_node >= 0) text += fmt::format(", numa {}", nic.numa_node);
  return nic.addresses.empty() ? text : text + fmt::format(", {}", fmt::join(nic.addresses, " "));
}

std::string gpu_text(const Gpu& gpu, size_t index) {
  std::string text = fmt::format("gpu {}: {}", index, gpu.model);
  if (!gpu.uuid.empty()) text += fmt::format(", {}", gpu.uuid);
  if (gpu.compute_capability > 0) {
    text += fmt::format(", compute capability {}.{}", gpu.compute_capability / 10, gpu.compute_capability % 10);
  }
  if (gpu.memory_bytes > 0) text += fmt::format(", {}", bytes_text(gpu.memory_bytes));
  if (gpu.memory_bytes_per_s.value > 0) text += fmt::format(", memory {}", rate_text(gpu.memory_bytes_per_s));
  text += fmt::format(", pci {}", gpu.pci_address);
  return gpu.numa_node < 0 ? text : text + fmt::format(", numa {}", gpu.numa_node);
}

// The links towards the processors, and where they come together with those of other devices.
std::string pci_text(const std::vector<PciHop>& path) {
  std::string text = "PCIe:";
  for (const PciHop& hop : path) {
    if (&hop != &path.front()) text += fmt::format(" <- {}", hop.address);
    if (hop.generation != 0 && hop.lanes != 0) text += fmt::format(" gen {} x{}", hop.generation, hop.lanes);
    if (hop.bytes_per_s.value != 0) text += fmt::format(" {}", rate_text(hop.bytes_per_s));
  }
  return text;
}

// All that lead to switches together: which of them carries what is not known.
void add_nvlinks(TreeNode& node, const Inventory& inventory, const Gpu& gpu) {
  int to_switches = 0;
  const NvLink* of_switch = nullptr;
  for (const NvLink& nvlink : gpu.nvlinks) {
    if (nvlink.to_switch) {
      to_switches += nvlink.links;
      of_switch = &nvlink;
      continue;
    }
    auto peer = std::find_if(inventory.gpus.begin(), inventory.gpus.end(),
                             [&](const Gpu& each) { return each.pci_address == nvlink.peer; });
    bool is_known = peer != inventory.gpus.end();
    std::string name = is_known ? fmt::format("gpu {}", peer - inventory.gpus.begin()) : nvlink.peer;
    node.add(fmt::format("NVLink to {}: {} x {}", name, nvlink.links, rate_text(nvlink.bytes_per_s)));
  }
  if (of_switch != nullptr) {
    node.add(fmt::format("NVLink to switches: {} x {}", to_switches, rate_text(of_switch->bytes_per_s)));
  }
}

void add_gpus(TreeNode& host, const Inventory& inventory) {
  for (size_t i = 0; i < inventory.gpus.size(); ++i) {
    const Gpu& gpu = inventory.gpus[i];
    TreeNode& node = host.add(gpu_text(gpu, i));
    if (!gpu.pci_path.empty()) node.add(pci_text(gpu.pci_path));
    add_nvlinks(node, inventory, gpu);
  }
  if (inventory.gpus.empty())
    host.add(fmt::format("gpus: none{}", inventory.gpu_note.empty() ? "" : ", " + inventory.gpu_note));
}

std::string limit_text(uint64_t value, std::string text) {
  return value == std::numeric_limits<uint64_t>::max() ? "unlimited" : text;
}

std::string memory_text(const Limits& limits) {
  std::string text = fmt::format("memory: {}", bytes_text(limits.memory_bytes));
  if (limits.memory_limit_bytes != 0)
    text += fmt::format(", this process's control group {}", bytes_text(limits.memory_limit_bytes));
  text += fmt::format(", /dev/shm {}", limits.dev_shm_bytes == 0 ? "absent" : bytes_text(limits.dev_shm_bytes));
  return text + fmt::format(", locked {}", limit_text(limits.memlock_bytes, bytes_text(limits.memlock_bytes)));
}

std::string limits_text(const Limits& limits) {
  return fmt::format("limits: {} open files, reading another process's memory {} (ptrace_scope {})",
                     limit_text(limits.open_files, fmt::format("{}", limits.open_files)),
                     limits.ptrace_scope == 0 ? "allowed" : "not allowed", limits.ptrace_scope);
}

// When they were measured, or that they are not.
std::string costs_text(const Costs& costs) {
  if (costs.measured_at_s != 0) {
    return fmt::format("costs, measured {:%Y-%m-%d %H:%M} UTC", fmt::gmtime(static_cast<time_t>(costs.measured_at_s)));
  }
  return costs == Costs() ? "costs, not measured: defaults" : "costs";
}

void add_costs(TreeNode& host, const Costs& costs) {
  TreeNode& node = host.add(costs_text(costs));
  auto size = [&](std::string_view what, const Figure& figure) {
    std::string text = figure.value == kNeverStreams ? "never" : bytes_text(figure.value);
    node.add(fmt::format("{:<36} {:>10}  ({})", what, text, name_of(figure.origin)));
  };
  auto rate = [&](std::string_view what, const Figure& figure) {
    node.add(fmt::format("{:<36} {:>10}  ({})", what, rate_text(figure.value), name_of(figure.origin)));
  };
  auto time = [&](std::string_view what, const Figure& figure) {
    node.add(fmt::format("{:<36} {:>10}  ({})", what, time_text(figure.value), name_of(figure.origin)));
  };
  rate("copy, one core", costs.copy_bytes_per_s);
  rate("float32 add, one core", costs.reduce_bytes_per_s);
  rate("float32 add, one core, within L2", costs.cached_bytes_per_s);
  rate("float32 add, one core, within LLC", costs.last_level_bytes_per_s);
  rate("copy, one core, within L2", costs.cached_copy_bytes_per_s);
  rate("copy, one core, within LLC", costs.last_level_copy_bytes_per_s);
  rate("copy, all cores together", costs.memory_bytes_per_s);
  size("stores past the caches pay off from", costs.streaming_bytes);
  time("cache line to another core", costs.cache_line_ns);
  rate("copy into a slot", costs.slot_store_bytes_per_s);
  rate("copy out of a slot", costs.slot_load_bytes_per_s);
  rate("copy into a slot, small", costs.small_slot_store_bytes_per_s);
  rate("copy out of a slot, small", costs.small_slot_load_bytes_per_s);
  time("the last stores into a slot, small", costs.slot_settle_ns);
  time("wake a sleeper on another core", costs.wake_ns);
  time("yield to a process on the same core", costs.yield_ns);
  time("read another process's memory, setup", costs.pull_ns);
  rate("read another process's memory", costs.pull_bytes_per_s);
  time("loopback TCP, one way", costs.tcp_ns);
  time("loopback TCP, a call that sends", costs.tcp_send_ns);
  time("loopback TCP, a call that receives", costs.tcp_receive_ns);
  rate("loopback TCP, one stream", costs.tcp_bytes_per_s);
  rate("loopback TCP, each way at once", costs.tcp_both_bytes_per_s);
  rate("loopback TCP, one stream, large", costs.large_tcp_bytes_per_s);
  rate("loopback TCP, each way, large", costs.large_tcp_both_bytes_per_s);
}

}  // namespace

std::string render(const TreeNode& root) {
  std::string text = root.text.empty() ? "" : root.text + "\n";
  render_children(root, "", text);
  return text;
}

std::string rate_text(const Figure& figure) {
  return fmt::format("{} ({})", rate_text(figure.value), name_of(figure.origin));
}

std::string time_text(const Figure& figure) {
  return fmt::format("{} ({})", time_text(figure.value), name_of(figure.origin));
}

static std::string fabric_text(const Inventory& inventory) {
  std::string text = "fabric: " + inventory.fabric;
  const Figure& figure = inventory.fabric_bytes_per_s;
  if (figure.value == 0) return text;
  return text + fmt::format(", {} ({}) to and from others", rate_text(figure.value), name_of(figure.origin));
}

TreeNode tree_of(const Inventory& inventory) {
  std::string system = inventory.kernel.empty() ? "" : fmt::format("Linux {}, ", inventory.kernel);
  TreeNode host{fmt::format("host {}: {}{}", inventory.hostname, system, inventory.cpu.architecture), {}};
  TreeNode& cpu = host.add(cpu_text(inventory.cpu));
  for (const Cache& cache : inventory.caches) cpu.add(cache_text(cache));
  for (const NumaNode& node : inventory.numa_nodes) {
    std::string memory = node.memory_bytes == 0 ? "" : bytes_text(node.memory_bytes) + ", ";
    host.add(fmt::format("numa {}: {}CPUs {}", node.id, memory, format_cpu_list(node.cpus)));
  }
  if (!inventory.fabric.empty()) host.add(fabric_text(inventory));
  if (inventory.limits != Limits()) {
    host.add(memory_text(inventory.limits));
    host.add(limits_text(inventory.limits));
  }
  for (const Nic& nic : inventory.nics) {
    TreeNode& node = host.add(nic_text(nic));
    if (!nic.pci_path.empty() && nic.pci_path.front().bytes_per_s.value != 0) node.add(pci_text(nic.pci_path));
  }
  add_gpus(host, inventory);
  add_costs(host, inventory.costs);
  return host;
}

std::string to_tree(const Inventory& inventory) { return render(tree_of(inventory)); }

}  // namespace tutti
