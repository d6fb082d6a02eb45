#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/topology/samples.h"
#include "topology/topology.h"

using namespace tutti;
using samples::host;
using samples::rank;

namespace {

Topology merged(const std::vector<RankFacts>& ranks, std::string_view forced = "") {
  auto topology = merge(ranks, forced);
  INFO(topology.status().message());
  REQUIRE(topology.ok());
  return *topology;
}

// Four GPUs of every kind of way to each other, and two network devices for them.
std::vector<Gpu> gpus_of(bool with_network, std::vector<Nic>& nics) {
  std::vector<Gpu> gpus(4);
  for (size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].pci_address = fmt::format("0000:0{}:00.0", i);
    gpus[i].numa_node = i == 3 ? 1 : 0;
    gpus[i].pci_path = {{gpus[i].pci_address, 4, 16, {20'000'000'000 + i, Origin::kSpec}}};
    if (i < 2) gpus[i].pci_path.push_back({"0000:10:00.0"});
  }
  gpus[1].nvlinks = {{"0000:02:00.0", false, 2, {20'000'000'000, Origin::kSpec}}};
  gpus[2].nvlinks = {{"0000:01:00.0", false, 2, {20'000'000'000, Origin::kSpec}}};
  for (int i = 0; with_network && i < 2; ++i) {
    nics.push_back({.name = "rdma", .pci_address = "", .speed_mbps = 100'000u + i, .numa_node = i, .up = true});
    nics.back().rdma = true;
  }
  return gpus;
}

}  // namespace

TEST_CASE("the best link that reaches is chosen") {
  Topology topology = merged({rank(host("a"), 100), rank(host("a"), 100), rank(host("a"), 101), rank(host("b"), 100)});
  CHECK(topology.link(0, 0).kind == LinkKind::kSelf);
  CHECK(topology.link(0, 1).kind == LinkKind::kLoopback);
  CHECK(topology.link(0, 2).kind == LinkKind::kShm);
  CHECK(topology.link(0, 3).kind == LinkKind::kTcp);
}

TEST_CASE("links are symmetric, whatever the hosts' figures") {
  Inventory slow = host("b");
  slow.costs.tcp_ns = {90'000, Origin::kProbe};
  slow.costs.tcp_bytes_per_s = {2'500'000'000, Origin::kUser};  // as fast as a's default
  slow.nics[1].speed_mbps = 0;
  Inventory container = host("a");
  container.identity.user_namespace = 99;
  std::vector<RankFacts> ranks = {rank(host("a"), 1), rank(host("a"), 1), rank(slow, 1), rank(container, 2),
                                  rank(host("c"), 3)};
  for (std::string_view forced : {"", "tcp"}) {
    Topology topology = merged(ranks, forced);
    for (int a = 0; a < topology.nranks(); ++a) {
      for (int b = 0; b < topology.nranks(); ++b) CHECK(topology.link(a, b) == topology.link(b, a));
    }
  }
}

TEST_CASE("equal pids in different pid namespaces are different processes") {
  Inventory container = host("a");
  container.identity.pid_namespace = 99;
  Topology topology = merged({rank(host("a"), 1), rank(container, 1)});
  CHECK_FALSE(topology.same_process(0, 1));
  CHECK(topology.link(0, 1).kind == LinkKind::kShm);
  CHECK_FALSE(topology.link(0, 1).pull);
}

TEST_CASE("private memory can be read only with the right to trace") {
  auto pull = [](auto change) {
    Inventory other = host("a");
    change(other);
    return merged({rank(other, 1), rank(host("a"), 2)}).link(0, 1).pull;
  };
  CHECK(pull([](Inventory&) {}));
  CHECK_FALSE(pull([](Inventory& other) { other.identity.user_namespace = 99; }));
  CHECK_FALSE(pull([](Inventory& other) { other.identity.pid_namespace = 99; }));
  CHECK_FALSE(pull([](Inventory& other) { other.limits.ptrace_scope = 1; }));
}

TEST_CASE("the forced transport is the link's kind") {
  std::vector<RankFacts> one_process = {rank(host("a"), 1), rank(host("a"), 1)};
  CHECK(merged(one_process, "loopback").link(0, 1).kind == LinkKind::kLoopback);
  CHECK(merged(one_process, "shm").link(0, 1).kind == LinkKind::kShm);
  TopologyLink tcp = merged(one_process, "tcp").link(0, 1);
  CHECK(tcp.kind == LinkKind::kTcp);
  CHECK_FALSE(tcp.mapped);
  CHECK_FALSE(tcp.pull);
}

TEST_CASE("ranks of two hosts that have RDMA devices link over verbs, those of one host only when they must") {
  std::vector<RankFacts> ranks = {rank(host("a"), 1), rank(host("a"), 2), rank(host("b"), 1), rank(host("b"), 2)};
  for (int with : {0, 1, 2}) ranks[with].rdma_lanes = 1;
  Topology topology = merged(ranks);
  CHECK(topology.link(0, 1).kind == LinkKind::kShm);
  CHECK(topology.link(0, 2).kind == LinkKind::kVerbs);
  CHECK(topology.link(0, 3).kind == LinkKind::kTcp);
  CHECK(topology.link(2, 1) == topology.link(1, 2));
  CHECK(merged(ranks, "tcp").link(0, 2).kind == LinkKind::kTcp);
  CHECK(parse_topology(to_json(topology)).value() == topology);  // whose classes of links are checked
  CHECK(merge(ranks, "verbs").status().message().find("rank 3 on b has no RDMA device") != std::string::npos);
  ranks[3].rdma_lanes = 1;
  CHECK(merged(ranks, "verbs").link(0, 1).kind == LinkKind::kVerbs);
}

TEST_CASE("a link's figures are those that limit it, with their origin") {
  Inventory slow_nic = host("b");
  slow_nic.nics[1].speed_mbps = 1000;
  Topology topology = merged({rank(host("a"), 1), rank(host("a"), 2), rank(host("c"), 1), rank(slow_nic, 1)});
  CHECK(topology.link(0, 1).bytes_per_s == Figure{12'000'000'000, Origin::kProbe});
  CHECK(topology.link(0, 1).latency_ns == Costs().cache_line_ns);
  CHECK(topology.link(0, 2).bytes_per_s == Costs().tcp_bytes_per_s);             // the core limits, not 100 Gbit/s
  CHECK(topology.link(0, 3).bytes_per_s == Figure{117'500'000, Origin::kSpec});  // the 1 Gbit/s interface limits
  CHECK(topology.link(0, 2).latency_ns.value > Costs().tcp_ns.value);
}

TEST_CASE("namespaces of one kernel reach each other without the network's cost") {
  Inventory other = host("a");
  other.identity.net_namespace = 99;
  Topology topology = merged({rank(host("a"), 1), rank(other, 2)});
  CHECK(topology.link(0, 1).kind == LinkKind::kTcp);
  CHECK(topology.link(0, 1).latency_ns == Costs().tcp_ns);
}

TEST_CASE("link classes count every pair once") {
  Topology topology =
      merged({rank(host("a"), 1), rank(host("b"), 1), rank(host("a"), 2), rank(host("b"), 1), rank(host("b"), 2)});
  std::vector<LinkClass> classes = link_classes(topology);
  REQUIRE(classes.size() == 3);
  CHECK(classes[0] == LinkClass{topology.link(0, 1), 6, 0, 1});
  CHECK(classes[1] == LinkClass{topology.link(0, 2), 3, 0, 2});
  CHECK(classes[2] == LinkClass{topology.link(1, 3), 1, 1, 3});
  uint64_t pairs = 0;
  for (const LinkClass& each : classes) pairs += each.pairs;
  CHECK(pairs == 10);
}

TEST_CASE("link classes are those that all pairs give one by one") {
  std::mt19937 random(20240607);
  for (int trial = 0; trial < 200; ++trial) {
    auto below = [&](unsigned count) { return random() % count; };
    std::vector<RankFacts> ranks;
    size_t nranks = 1 + below(12);
    while (ranks.size() < nranks) {
      Inventory inventory = host(std::string(1, static_cast<char>('a' + below(4))));
      inventory.identity.pid_namespace = 20 + below(2);
      inventory.identity.user_namespace = 30 + below(2);
      if (inventory.hostname == "c") inventory.costs.tcp_ns.value = 77'000;
      if (inventory.hostname != "a") inventory.fabric = "rack";
      if (inventory.hostname != "c") inventory.fabric_bytes_per_s = {1'000'000'000, Origin::kUser};
      ranks.push_back(rank(inventory, static_cast<int64_t>(1 + below(3))));
    }
    Topology topology = merged(ranks, below(4) == 0 ? "tcp" : "");
    bool has_gpus = below(2) == 0;
    for (TopologyHost& each : topology.hosts) each.inventory.gpus = gpus_of(below(3) != 0, each.inventory.nics);
    for (TopologyRank& each : topology.ranks) each.gpu = has_gpus ? static_cast<int>(below(5)) - 1 : -1;
    std::vector<LinkClass> expected;
    for (int a = 0; a < topology.nranks(); ++a) {
      for (int b = a + 1; b < topology.nranks(); ++b) {
        auto same = std::find_if(expected.begin(), expected.end(),
                                 [&](const LinkClass& each) { return each.link == topology.link(a, b); });
        if (same == expected.end()) same = expected.insert(same, {topology.link(a, b), 0, a, b});
        ++same->pairs;
      }
    }
    CHECK(link_classes(topology) == expected);
  }
}

TEST_CASE("very many ranks are classified at once") {
  std::vector<LinkClass> classes = link_classes(single_host(host("a"), 100'000));
  REQUIRE(classes.size() == 1);
  CHECK(classes[0].pairs == 4'999'950'000);
}
