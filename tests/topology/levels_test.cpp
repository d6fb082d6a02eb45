#include "topology/levels.h"

#include <catch2/catch.hpp>

#include "topology/network.h"

namespace tutti {
namespace {

// Ranks as "host.gpu host.gpu ..."; "host.-1" is in the host's memory.
Topology topology_of(const std::vector<std::pair<int, int>>& places) {
  Topology topology;
  for (auto [host, gpu] : places) {
    TopologyRank rank;
    rank.host = host;
    rank.gpu = gpu;
    topology.ranks.push_back(rank);
    topology.hosts.resize(std::max<size_t>(topology.hosts.size(), static_cast<size_t>(host) + 1));
  }
  return topology;
}

// `hosts` times `gpus` times `ranks`.
Topology regular(int hosts, int gpus, int ranks) {
  std::vector<std::pair<int, int>> places;
  for (int i = 0; i < hosts * gpus * ranks; ++i) places.emplace_back(i / ranks / gpus, i / ranks % gpus);
  return topology_of(places);
}

using Found = std::vector<Level>;

}  // namespace

TEST_CASE("ranks of one GPU and those of one host are groups within groups") {
  Levels found = levels_of(regular(4, 8, 4));
  CHECK(found.levels == Found{{LevelKind::kGpu, 4}, {LevelKind::kHost, 32}});
  CHECK(found.uneven.empty());
}

TEST_CASE("groups that tell nothing are left out") {
  CHECK(levels_of(regular(1, 8, 1)).levels.empty());
  CHECK(levels_of(regular(1, 1, 8)).levels.empty());
  CHECK(levels_of(regular(8, 1, 1)).levels.empty());
  CHECK(levels_of(regular(1, 4, 3)).levels == Found{{LevelKind::kGpu, 3}});
  CHECK(levels_of(regular(3, 4, 1)).levels == Found{{LevelKind::kHost, 4}});
  // All ranks of a host on its one GPU.
  CHECK(levels_of(regular(3, 1, 4)).levels == Found{{LevelKind::kHost, 4}});
  CHECK(levels_of(topology_of({{0, -1}, {0, -1}, {1, -1}, {1, -1}})).levels == Found{{LevelKind::kHost, 2}});
  // Where some ranks are in the host's memory there are no groups by GPU.
  Levels mixed = levels_of(topology_of({{0, -1}, {0, -1}, {0, 0}, {0, 0}, {1, -1}, {1, 0}, {1, 0}, {1, 0}}));
  CHECK(mixed.levels == Found{{LevelKind::kHost, 4}});
  CHECK(mixed.uneven.empty());
}

TEST_CASE("groups of different sizes, or of ranks that are not consecutive, are left out and named") {
  Levels gpus = levels_of(topology_of({{0, 0}, {0, 0}, {0, 0}, {0, 1}, {1, 0}, {1, 0}, {1, 1}, {1, 1}}));
  CHECK(gpus.levels == Found{{LevelKind::kHost, 4}});
  CHECK(gpus.uneven == std::vector{LevelKind::kGpu});
  Levels hosts = levels_of(topology_of({{0, 0}, {0, 0}, {1, 0}, {1, 0}, {0, 1}, {0, 1}, {1, 1}, {1, 1}}));
  CHECK(hosts.levels == Found{{LevelKind::kGpu, 2}});
  CHECK(hosts.uneven == std::vector{LevelKind::kHost});
}

TEST_CASE("hosts of a fabric are a group, and those that do not tell theirs another one") {
  Topology topology = regular(4, 2, 2);
  for (int host : {0, 1}) topology.hosts[host].inventory.fabric = "rack1";
  CHECK(levels_of(topology).levels == Found{{LevelKind::kGpu, 2}, {LevelKind::kHost, 4}, {LevelKind::kFabric, 8}});
  CHECK(levels_text(topology, {2, 4, 8}) ==
        "2 ranks on each GPU, 2 GPUs on each host, 2 hosts on each fabric, 2 fabrics");
  std::swap(topology.hosts[1].inventory.fabric, topology.hosts[2].inventory.fabric);
  CHECK(levels_of(topology).levels == Found{{LevelKind::kGpu, 2}, {LevelKind::kHost, 4}});
  CHECK(levels_of(topology).uneven == std::vector{LevelKind::kFabric});
}

TEST_CASE("out of a fabric leads the least that one of its hosts says, else half of what their devices carry") {
  Topology topology = regular(4, 1, 1);
  for (int host = 0; host < 4; ++host) {
    topology.hosts[host].inventory.fabric = host < 3 ? "a" : "b";
    topology.hosts[host].network_bytes_per_s = {10'000, Origin::kSpec};
  }
  CHECK(fabric_bytes_per_s(topology, "a") == Figure{3 * 5'000, Origin::kDefault});
  Nic rdma{.speed_mbps = 100, .up = true, .rdma = true};
  topology.hosts[0].inventory.nics = {rdma, rdma};
  CHECK(fabric_bytes_per_s(topology, "a") == Figure{100 * 117'500 + 2 * 5'000, Origin::kDefault});
  topology.hosts[0].inventory.fabric_bytes_per_s = {7'000, Origin::kUser};
  topology.hosts[1].inventory.fabric_bytes_per_s = {6'000, Origin::kProbe};
  topology.hosts[2].inventory.fabric_bytes_per_s = {8'000, Origin::kUser};
  CHECK(fabric_bytes_per_s(topology, "a") == Figure{6'000, Origin::kProbe});
  CHECK(fabric_bytes_per_s(topology, "b") == Figure{5'000, Origin::kDefault});
}

TEST_CASE("ranks that are near each other come after one another") {
  CHECK(near_order(regular(4, 8, 4)).empty());
  CHECK(near_order(topology_of({{0, -1}, {1, -1}, {0, -1}, {1, -1}})) == std::vector{0, 2, 1, 3});
  CHECK(near_order(topology_of({{0, 1}, {0, 0}, {0, 1}, {0, 0}})) == std::vector{1, 3, 0, 2});
  Topology topology = regular(4, 1, 1);
  topology.hosts[1].inventory.fabric = topology.hosts[3].inventory.fabric = "rack2";
  CHECK(near_order(topology) == std::vector{0, 2, 1, 3});
}

TEST_CASE("levels are told from the inside out") {
  Topology topology = regular(4, 8, 4);
  CHECK(levels_text(topology, {4, 32}) == "4 ranks on each GPU, 8 GPUs on each host, 4 hosts");
  CHECK(levels_text(topology, {32}) == "32 ranks on each host, 4 hosts");
  CHECK(levels_text(topology, {4}) == "4 ranks on each GPU, 32 GPUs");
}

}  // namespace tutti
