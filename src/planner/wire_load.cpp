#include "planner/wire_load.h"

#include <algorithm>

#include "topology/gpu_path.h"
#include "topology/network.h"

namespace tutti {

static constexpr int kNoHost = -1;  // whose wires are shared by several

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

void WireLoad::send(int from, int to, uint64_t bytes) {
  for (size_t each : way(from, to).wires) add(each, bytes);
}

void WireLoad::touch(int rank, uint64_t bytes) {
  const TopologyRank& self = topology_.ranks[rank];
  const Gpu& gpu = topology_.hosts[self.host].inventory.gpus[self.gpu];
  add(wire(self.host, fmt::format("memory of gpu {}", self.gpu), memory_bytes_per_s(gpu)), bytes);
}

WireLoad::Busiest WireLoad::busiest() const {
  Busiest most;
  for (const Loaded& each : loaded_) {
    unsigned __int128 ns = static_cast<unsigned __int128>(each.bytes) * 1'000'000'000 / each.bytes_per_s;
    uint64_t bounded = ns > UINT64_MAX / 16 ? UINT64_MAX / 16 : static_cast<uint64_t>(ns);
    if (bounded > most.ns) most = {bounded, each.name};
  }
  return most;
}

const WireLoad::Way& WireLoad::way(int from, int to) {
  const TopologyRank& a = topology_.ranks[from];
  const TopologyRank& b = topology_.ranks[to];
  // Links of ranks in the host's memory depend on their processes.
  auto end = [](int rank, int gpu) { return gpu >= 0 ? gpu : -1 - rank; };
  auto [entry, fresh] = ways_.try_emplace({a.host, end(from, a.gpu), b.host, end(to, b.gpu)});
  Way& way = entry->second;
  if (!fresh) return way;
  way.link = topology_.link(from, to);
  const Inventory& here = topology_.hosts[a.host].inventory;
  const Inventory& there = topology_.hosts[b.host].inventory;
  auto take = [&](int host, const GpuPath& path) {
    for (const PathWire& each : path.wires) way.wires.push_back(wire(host, each.name, each.bytes_per_s));
  };
  if (way.link.kind == LinkKind::kRdma) {
    take(a.host, path_to_network(here, a.gpu, false));
    take(b.host, path_to_network(there, b.gpu, true));
  } else if (is_between_gpus(way.link.kind)) {
    take(a.host, path_between(here, a.gpu, b.gpu));
  } else {
    if (a.gpu >= 0) take(a.host, path_to_host(here, a.gpu, false));
    if (b.gpu >= 0) take(b.host, path_to_host(there, b.gpu, true));
  }
  if (here.fabric != there.fabric) leave_fabric(a.host, b.host, way.wires);
  return way;
}

void WireLoad::leave_fabric(int from, int to, std::vector<size_t>& wires) {
  for (int host : {from, to}) {
    const std::string& fabric = topology_.hosts[host].inventory.fabric;
    std::string name = fmt::format("{} {}", host == from ? "out of" : "into",
                                   fabric.empty() ? "hosts without a fabric" : "fabric " + fabric);
    wires.push_back(wire(kNoHost, name, fabric_bytes_per_s(topology_, fabric)));
  }
}

size_t WireLoad::wire(int host, const std::string& name, const Figure& bytes_per_s) {
  auto [entry, fresh] = index_.try_emplace({host, name}, loaded_.size());
  if (fresh) loaded_.push_back({name, std::max<uint64_t>(1, bytes_per_s.value), 0});
  return entry->second;
}

void WireLoad::add(size_t wire, uint64_t bytes) {
  constexpr uint64_t kMost = UINT64_MAX / 16;
  loaded_[wire].bytes = std::min(kMost, std::min(kMost, loaded_[wire].bytes) + std::min(kMost, bytes));
}

}  // namespace tutti
