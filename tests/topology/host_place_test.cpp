// Where ranks are on their hosts.
#include "topology/host_place.h"

#include <catch2/catch.hpp>

#include "topology/topology.h"

namespace tutti::test {
namespace {

// Hosts of two NUMA nodes with four processors each; rank r is on host r % hosts, and may use `cpus[r]`.
Topology dealt_to(int hosts, const std::vector<std::vector<int>>& cpus) {
  Topology topology;
  topology.hosts.resize(hosts);
  for (TopologyHost& host : topology.hosts) {
    host.inventory.numa_nodes = {{.id = 0, .cpus = {0, 1, 2, 3}}, {.id = 1, .cpus = {4, 5, 6, 7}}};
  }
  for (const std::vector<int>& own : cpus) {
    int rank = topology.nranks();
    topology.hosts[rank % hosts].ranks.push_back(rank);
    topology.ranks.push_back({.host = rank % hosts, .identity = {}, .cpus = own});
  }
  return topology;
}

}  // namespace

TEST_CASE("ranks that are dealt to hosts in turn each have another turn on their host") {
  Topology topology = dealt_to(4, std::vector<std::vector<int>>(16, {0, 1, 2, 3, 4, 5, 6, 7}));
  for (int rank = 0; rank < 16; ++rank) {
    CHECK(place_of(topology, rank) == HostPlace{.numa_nodes = {0, 1}, .turn = rank / 4});
  }
}

TEST_CASE("ranks of each NUMA node have turns of their own, however they are numbered") {
  Topology topology = dealt_to(1, {{0}, {4}, {1}, {5, 6}, {2, 3}, {7}, {}});
  std::vector<HostPlace> places;
  for (int rank = 0; rank < topology.nranks(); ++rank) places.push_back(place_of(topology, rank));
  CHECK(places == std::vector<HostPlace>{{{0}, 0}, {{1}, 0}, {{0}, 1}, {{1}, 1}, {{0}, 2}, {{1}, 2}, {{}, 0}});
}

}  // namespace tutti::test
