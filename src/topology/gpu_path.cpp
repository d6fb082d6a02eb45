#include "topology/gpu_path.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "topology/network.h"
#include "topology/wires.h"

namespace tutti {
namespace {

using Hops = std::span<const PciHop>;

// A port whose link is unknown: half of what the most common one, the third generation with 16 lanes, carries.
constexpr Figure kUnknownPcie = {7'000'000'000, Origin::kDefault};

// Of all links that lead there; value 0: none does.
Figure total(const Gpu& gpu, auto&& leads_there) {
  Figure sum{0, Origin::kUser};
  for (const NvLink& nvlink : gpu.nvlinks) {
    if (!leads_there(nvlink)) continue;
    uint64_t value = sum.value + nvlink.bytes_per_s.value * static_cast<uint64_t>(nvlink.links);
    sum = {std::min(kMostOfAFigure, value), std::min(sum.origin, nvlink.bytes_per_s.origin)};
  }
  return sum;
}

Figure to_peer(const Gpu& gpu, const Gpu& peer) {
  return total(gpu, [&](const NvLink& nvlink) { return !nvlink.to_switch && nvlink.peer == peer.pci_address; });
}

Figure to_switches(const Gpu& gpu) {
  return total(gpu, [](const NvLink& nvlink) { return nvlink.to_switch; });
}

// As in links: of equal ones the one with the weaker origin, so that the order does not matter.
Figure least(const Figure& a, const Figure& b) {
  if (a.value != b.value) return a.value < b.value ? a : b;
  return a.origin < b.origin ? a : b;
}

// A device whose path is unknown is at least there itself; a virtual one is nowhere.
std::vector<PciHop> way_up(const std::string& pci_address, const std::vector<PciHop>& path) {
  if (!path.empty() || pci_address.empty()) return path;
  return {PciHop{.address = pci_address}};
}

// Of the hops of `path`, those below the first one that is on `other` too.
Hops below_common(const std::vector<PciHop>& path, const std::vector<PciHop>& other) {
  auto is_common = [&](const PciHop& hop) {
    auto is_same = [&](const PciHop& each) { return !each.address.empty() && each.address == hop.address; };
    return std::any_of(other.begin(), other.end(), is_same);
  };
  return {path.begin(), std::find_if(path.begin(), path.end(), is_common)};
}

bool share_a_bridge(const std::vector<PciHop>& path, const std::vector<PciHop>& other) {
  return below_common(path, other).size() < path.size();
}

// Within a switch and within the processors there is no link.
bool has_link(const PciHop& hop, size_t index) { return hop.bytes_per_s.value != 0 || index == 0; }

Figure carried_by(const PciHop& hop) { return hop.bytes_per_s.value == 0 ? kUnknownPcie : hop.bytes_per_s; }

void add_up(Hops hops, GpuPath& path) {
  for (size_t i = 0; i < hops.size(); ++i) {
    if (has_link(hops[i], i)) path.wires.push_back({"PCIe up from " + hops[i].address, carried_by(hops[i])});
  }
}

void add_down(Hops hops, GpuPath& path) {
  for (size_t i = hops.size(); i-- > 0;) {
    if (has_link(hops[i], i)) path.wires.push_back({"PCIe down to " + hops[i].address, carried_by(hops[i])});
  }
}

// One way for a flag and the data before it, as far as the kind of way tells; nothing of a kernel's start.
Figure latency_of(LinkKind kind) {
  switch (kind) {
    case LinkKind::kSameGpu: return {700, Origin::kDefault};
    case LinkKind::kNvlink: return {1'000, Origin::kDefault};
    case LinkKind::kNvswitch: return {1'200, Origin::kDefault};
    case LinkKind::kPcieSwitch: return {1'500, Origin::kDefault};
    case LinkKind::kHostBridge: return {2'000, Origin::kDefault};
    case LinkKind::kSockets: return {2'500, Origin::kDefault};
    case LinkKind::kRdma: return {5'000, Origin::kDefault};
    default: return {};
  }
}

GpuPath finished(GpuPath path, Figure most) {
  path.latency_ns = latency_of(path.kind);
  path.bytes_per_s = most;
  for (const PathWire& wire : path.wires) path.bytes_per_s = least(path.bytes_per_s, wire.bytes_per_s);
  return path;
}

// A device, as far as PCIe is concerned.
struct OnPcie {
  std::vector<PciHop> path;
  int numa_node;
};
OnPcie on_pcie(const Gpu& gpu) { return {way_up(gpu.pci_address, gpu.pci_path), gpu.numa_node}; }
OnPcie on_pcie(const Nic& nic) { return {way_up(nic.pci_address, nic.pci_path), nic.numa_node}; }

// What is not known to be apart is together.
bool on_one_node(const OnPcie& a, const OnPcie& b) {
  return a.numa_node == b.numa_node || a.numa_node < 0 || b.numa_node < 0;
}

// Through the bridge that both have in common, else through the processors.
void add_pcie(const Inventory& host, const OnPcie& from, const OnPcie& to, GpuPath& path) {
  if (share_a_bridge(from.path, to.path)) {
    path.kind = LinkKind::kPcieSwitch;
  } else {
    path.kind = on_one_node(from, to) ? LinkKind::kHostBridge : LinkKind::kSockets;
  }
  add_up(below_common(from.path, to.path), path);
  if (path.kind == LinkKind::kSockets) {
    path.wires.push_back({fmt::format("numa {} to numa {}", from.numa_node, to.numa_node),
                          host.interconnect_bytes_per_s});
  }
  add_down(below_common(to.path, from.path), path);
}

// Without the way through the processors a few hops, with it many.
size_t distance(const OnPcie& gpu, const OnPcie& nic) {
  constexpr size_t kThroughProcessors = SIZE_MAX - 1, kThroughSockets = SIZE_MAX;
  if (share_a_bridge(gpu.path, nic.path)) return below_common(gpu.path, nic.path).size();
  return on_one_node(gpu, nic) ? kThroughProcessors : kThroughSockets;
}

}  // namespace

Figure memory_bytes_per_s(const Gpu& gpu) {
  return gpu.memory_bytes_per_s.value != 0 ? gpu.memory_bytes_per_s : gpu_memory_bytes_per_s(gpu.compute_capability);
}

GpuPath path_between(const Inventory& host, int from, int to) {
  TUTTI_CHECK(std::min(from, to) >= 0 && static_cast<size_t>(std::max(from, to)) < host.gpus.size());
  const Gpu& a = host.gpus[from];
  const Gpu& b = host.gpus[to];
  Figure memory = least(memory_bytes_per_s(a), memory_bytes_per_s(b));
  GpuPath path;
  if (from == to) return finished(std::move(path), memory);
  Figure direct = least(to_peer(a, b), to_peer(b, a));
  Figure out = to_switches(a), in = to_switches(b);
  if (direct.value > 0 && direct.value >= std::min(out.value, in.value)) {
    path.kind = LinkKind::kNvlink;
    path.wires.push_back({fmt::format("NVLink from gpu {} to gpu {}", from, to), direct});
  } else if (std::min(out.value, in.value) > 0) {
    path.kind = LinkKind::kNvswitch;
    path.wires.push_back({fmt::format("NVLink out of gpu {}", from), out});
    path.wires.push_back({fmt::format("NVLink into gpu {}", to), in});
  } else {
    add_pcie(host, on_pcie(a), on_pcie(b), path);
  }
  return finished(std::move(path), memory);
}

const Nic* nearest_nic(const Inventory& host, int gpu) {
  OnPcie self = on_pcie(host.gpus[gpu]);
  std::vector<const Nic*> nearest;
  size_t least_distance = SIZE_MAX;
  for (const Nic& nic : host.nics) {
    if (!nic.up || !nic.rdma) continue;
    size_t there = distance(self, on_pcie(nic));
    if (there < least_distance) nearest.clear();
    least_distance = std::min(least_distance, there);
    if (there == least_distance) nearest.push_back(&nic);
  }
  return nearest.empty() ? nullptr : nearest[gpu % nearest.size()];
}

GpuPath path_to_network(const Inventory& host, int gpu, bool inward) {
  const Gpu& self = host.gpus[gpu];
  const Nic* nic = nearest_nic(host, gpu);
  TUTTI_CHECK(nic != nullptr);
  PathWire port{fmt::format("{} {}", nic->name, inward ? "in" : "out"), nic_bytes_per_s(*nic)};
  GpuPath path;
  if (inward) {
    path.wires.push_back(port);
    add_pcie(host, on_pcie(*nic), on_pcie(self), path);
  } else {
    add_pcie(host, on_pcie(self), on_pcie(*nic), path);
    path.wires.push_back(port);
  }
  path.kind = LinkKind::kRdma;
  return finished(std::move(path), memory_bytes_per_s(self));
}

GpuPath path_to_host(const Inventory& host, int gpu, bool inward) {
  const Gpu& self = host.gpus[gpu];
  std::vector<PciHop> up = way_up(self.pci_address, self.pci_path);
  GpuPath path;
  path.kind = LinkKind::kHostBridge;
  if (inward) {
    add_down(up, path);
  } else {
    add_up(up, path);
  }
  return finished(std::move(path), memory_bytes_per_s(self));
}

}  // namespace tutti
