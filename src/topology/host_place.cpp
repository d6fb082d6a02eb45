#include "topology/host_place.h"

#include <algorithm>

#include "topology/topology.h"

namespace tutti {
namespace {

std::vector<int> numa_nodes_of(const Topology& topology, int rank) {
  std::vector<int> nodes;
  const std::vector<int>& cpus = topology.ranks[rank].cpus;
  for (const NumaNode& node : topology.hosts[topology.ranks[rank].host].inventory.numa_nodes) {
    auto is_on_node = [&](int cpu) { return std::find(node.cpus.begin(), node.cpus.end(), cpu) != node.cpus.end(); };
    if (std::any_of(cpus.begin(), cpus.end(), is_on_node)) nodes.push_back(node.id);
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace

HostPlace place_of(const Topology& topology, int rank) {
  HostPlace place{.numa_nodes = numa_nodes_of(topology, rank)};
  for (int other : topology.hosts[topology.ranks[rank].host].ranks) {
    if (other < rank && numa_nodes_of(topology, other) == place.numa_nodes) ++place.turn;
  }
  return place;
}

}  // namespace tutti
