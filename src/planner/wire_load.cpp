#include "planner/wire_load.h"

#include <algorithm>
#include <tuple>

#include "topology/network.h"

namespace tutti {
namespace {

constexpr int kNoHost = -1;  // whose wires are shared by several

// What ways between GPUs, and to the network, depend on.
bool have_alike_devices(const Inventory& a, const Inventory& b) {
  auto gpu = [](const Gpu& each) {
    return std::tie(each.pci_address, each.numa_node, each.compute_capability, each.memory_bytes_per_s, each.pci_path,
                    each.nvlinks);
  };
  auto nic = [](const Nic& each) {
    return std::tie(each.name, each.pci_address, each.speed_mbps, each.numa_node, each.up, each.rdma, each.pci_path);
  };
  auto are_alike = [](const auto& as, const auto& bs, auto key) {
    return std::equal(as.begin(), as.end(), bs.begin(), bs.end(),
                      [&](const auto& x, const auto& y) { return key(x) == key(y); });
  };
  return a.interconnect_bytes_per_s == b.interconnect_bytes_per_s && are_alike(a.gpus, b.gpus, gpu) &&
         are_alike(a.nics, b.nics, nic);
}

}  // namespace

bool is_between_gpus(LinkKind kind) {
  switch (kind) {
    case LinkKind::kSelf:
    case LinkKind::kLoopback:
    case LinkKind::kShm:
    case LinkKind::kTcp:
    case LinkKind::kVerbs: return false;
    case LinkKind::kSameGpu:
    case LinkKind::kNvlink:
    case LinkKind::kNvswitch:
    case LinkKind::kPcieSwitch:
    case LinkKind::kHostBridge:
    case LinkKind::kSockets:
    case LinkKind::kRdma: return true;
  }
  return false;
}

WireLoad::WireLoad(const Topology& topology) : topology_(topology) {
  for (const TopologyHost& host : topology.hosts) {
    size_t gpus = host.inventory.gpus.size();
    hosts_.push_back({devices_of(host.inventory), fabric_of(host.inventory), static_cast<int>(gpus),
                      std::vector<Way>(gpus * (gpus + kEnds))});
  }
}

size_t WireLoad::devices_of(const Inventory& inventory) {
  auto alike = std::find_if(devices_.begin(), devices_.end(),
                            [&](const Devices& each) { return have_alike_devices(*each.inventory, inventory); });
  if (alike != devices_.end()) return static_cast<size_t>(alike - devices_.begin());
  size_t gpus = inventory.gpus.size();
  Devices devices{&inventory, {}, std::vector<std::optional<GpuPath>>(gpus * (gpus + kEnds))};
  for (size_t gpu = 0; gpu < gpus; ++gpu) {
    devices.reach_network.push_back(nearest_nic(inventory, static_cast<int>(gpu)) != nullptr);
  }
  devices_.push_back(std::move(devices));
  return devices_.size() - 1;
}

size_t WireLoad::fabric_of(const Inventory& inventory) {
  auto known =
      std::find_if(fabrics_.begin(), fabrics_.end(), [&](const Fabric& each) { return each.name == inventory.fabric; });
  if (known == fabrics_.end()) known = fabrics_.insert(known, {inventory.fabric, {}, {}});
  return static_cast<size_t>(known - fabrics_.begin());
}

bool WireLoad::are_joined_by_network(int from, int to) const {
  auto reaches = [&](const TopologyRank& rank) {
    return devices_[hosts_[rank.host].devices].reach_network[static_cast<size_t>(rank.gpu)];
  };
  return topology_.may_link_gpus(from, to) && reaches(topology_.ranks[from]) && reaches(topology_.ranks[to]);
}

TopologyLink WireLoad::link(int from, int to) {
  const TopologyRank& a = topology_.ranks[from];
  const TopologyRank& b = topology_.ranks[to];
  if (a.host == b.host && topology_.may_link_gpus(from, to)) {
    return gpu_link(*way(a.host, a.gpu, b.gpu).path);
  }
  if (a.host == b.host || !are_joined_by_network(from, to)) return topology_.link(from, to);
  const GpuPath& out = *way_to(a.host, a.gpu, End::kToNetwork).path;
  const GpuPath& in = *way_to(b.host, b.gpu, End::kFromNetwork).path;
  return rdma_link(topology_.hosts[a.host], out, topology_.hosts[b.host], in);
}

void WireLoad::send(int from, int to, uint64_t bytes) {
  const TopologyRank& a = topology_.ranks[from];
  const TopologyRank& b = topology_.ranks[to];
  if (a.host == b.host && topology_.may_link_gpus(from, to)) {
    add(way(a.host, a.gpu, b.gpu), bytes);
  } else if (a.host != b.host && are_joined_by_network(from, to)) {
    add(way_to(a.host, a.gpu, End::kToNetwork), bytes);
    add(way_to(b.host, b.gpu, End::kFromNetwork), bytes);
  } else {
    if (a.gpu >= 0) add(way_to(a.host, a.gpu, End::kToHost), bytes);
    if (b.gpu >= 0) add(way_to(b.host, b.gpu, End::kFromHost), bytes);
  }
  if (hosts_[a.host].fabric != hosts_[b.host].fabric) leave_fabric(a.host, b.host, bytes);
}

void WireLoad::touch(int rank, uint64_t bytes) {
  const TopologyRank& self = topology_.ranks[rank];
  add(way_to(self.host, self.gpu, End::kMemory), bytes);
}

WireLoad::Busiest WireLoad::busiest() const {
  Busiest most;
  for (size_t i = 0; i < wires_.size(); ++i) {
    unsigned __int128 ns = static_cast<unsigned __int128>(bytes_[i]) * 1'000'000'000 / wires_[i].bytes_per_s;
    uint64_t bounded = ns > UINT64_MAX / 16 ? UINT64_MAX / 16 : static_cast<uint64_t>(ns);
    if (bounded > most.ns) most = {bounded, wires_[i].name};
  }
  return most;
}

const WireLoad::Way& WireLoad::way_to(int host, int gpu, End end) {
  return way(host, gpu, hosts_[host].gpus + static_cast<int>(end));
}

const WireLoad::Way& WireLoad::way(int host, int gpu, int number) {
  Host& its = hosts_[host];
  auto at = static_cast<size_t>(gpu * (its.gpus + kEnds) + number);
  Way& way = its.ways[at];
  if (way.path != nullptr) return way;
  std::optional<GpuPath>& path = devices_[its.devices].paths[at];
  if (!path) path = find(topology_.hosts[host].inventory, gpu, number);
  way.path = &*path;
  for (const PathWire& each : path->wires) way.wires.push_back(wire(host, each.name, each.bytes_per_s));
  return way;
}

GpuPath WireLoad::find(const Inventory& inventory, int gpu, int number) const {
  auto gpus = static_cast<int>(inventory.gpus.size());
  if (number < gpus) return path_between(inventory, gpu, number);
  switch (static_cast<End>(number - gpus)) {
    case End::kToNetwork: return path_to_network(inventory, gpu, false);
    case End::kFromNetwork: return path_to_network(inventory, gpu, true);
    case End::kToHost: return path_to_host(inventory, gpu, false);
    case End::kFromHost: return path_to_host(inventory, gpu, true);
    case End::kMemory: break;
  }
  return {.wires = {{fmt::format("memory of gpu {}", gpu), memory_bytes_per_s(inventory.gpus[gpu])}}};
}

void WireLoad::leave_fabric(int from, int to, uint64_t bytes) {
  Fabric& left = fabrics_[hosts_[from].fabric];
  Fabric& entered = fabrics_[hosts_[to].fabric];
  add(edge(left.out, left, "out of"), bytes);
  add(edge(entered.in, entered, "into"), bytes);
}

size_t WireLoad::edge(std::optional<size_t>& known, const Fabric& fabric, std::string_view direction) {
  std::string_view what = fabric.name.empty() ? "hosts without a fabric" : "fabric ";
  if (!known) {
    known =
        wire(kNoHost, fmt::format("{} {}{}", direction, what, fabric.name), fabric_bytes_per_s(topology_, fabric.name));
  }
  return *known;
}

size_t WireLoad::wire(int host, const std::string& name, const Figure& bytes_per_s) {
  auto [entry, fresh] = index_.try_emplace({host, name}, wires_.size());
  if (fresh) {
    wires_.push_back({name, std::max<uint64_t>(1, bytes_per_s.value)});
    bytes_.push_back(0);
  }
  return entry->second;
}

void WireLoad::add(const Way& way, uint64_t bytes) {
  for (size_t each : way.wires) add(each, bytes);
}

void WireLoad::add(size_t wire, uint64_t bytes) {
  constexpr uint64_t kMost = UINT64_MAX / 16;
  bytes_[wire] = std::min(kMost, bytes_[wire] + std::min(kMost, bytes));
}

}  // namespace tutti
