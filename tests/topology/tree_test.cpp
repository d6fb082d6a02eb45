#include <catch2/catch.hpp>

#include "tests/topology/samples.h"
#include "topology/topology.h"
#include "topology/units.h"

using namespace tutti;

TEST_CASE("quantities are written as people read them") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(32768) == "32 KiB");
  CHECK(bytes_text(50432901120) == "47 GiB");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(rate_text(11'240'000'000) == "11.2 GB/s");
  CHECK(rate_text(117'500'000) == "118 MB/s");
  CHECK(time_text(80) == "80 ns");
  CHECK(time_text(12'400) == "12.4 us");
}

TEST_CASE("a size from which something never pays off is called so") {
  Topology topology = single_host(samples::host("a"), 1);
  topology.hosts[0].inventory.costs.streaming_bytes.value = kNeverStreams;
  CHECK(to_tree(topology).find("stores past the caches pay off from       never") != std::string::npos);
}

TEST_CASE("the tree shows hosts, ranks and links with figures and their origin") {
  auto topology = merge(samples::two_hosts(), "");
  REQUIRE(topology.ok());
  std::string tree = to_tree(*topology);
  CAPTURE(tree);
  for (const char* piece :
       {"3 ranks on 2 hosts", "├─ host a: Linux 6.1.0, x86_64",
        "│  ├─ cpu: Example 9000, 2 packages, 8 cores, 16 logical CPUs, allowed 0-3", "L3 32 MiB x 2 (each for 8 CPUs)",
        "numa 1: 64 GiB, CPUs 8-15", "nic eth0: up, 100 Gbit/s, mtu 9000, pci 0000:01:00.0, numa 1, 10.0.0.1",
        "rank 2: local rank 0, pid 100", "└─ links",
        "shm: 12 GB/s (probe), one way 100 ns (default), memory mapped, private memory readable; ranks 0 and 1",
        "tcp: 2.5 GB/s (default), one way 22 us (default); 2 pairs like ranks 0 and 2"}) {
    CAPTURE(piece);
    CHECK(tree.find(piece) != std::string::npos);
  }
}

TEST_CASE("a network interface that does not tell its speed is said not to") {
  Inventory host = samples::host("a");
  host.nics = {{.name = "lo", .mtu = 65536, .up = true, .loopback = true}, {.name = "eth7", .mtu = 1500, .up = true}};
  std::string tree = to_tree(host);
  CHECK(tree.find("nic lo: up, loopback, mtu 65536\n") != std::string::npos);
  CHECK(tree.find("nic eth7: up, speed unknown, mtu 1500\n") != std::string::npos);
}

TEST_CASE("many like ranks are one line") {
  std::string tree = to_tree(single_host(samples::host("a"), 100));
  CHECK(tree.find("ranks 0-99: 100 processes") != std::string::npos);
  CHECK(tree.find("rank 7:") == std::string::npos);
  CHECK(tree.find("more ranks than CPUs") != std::string::npos);
}

TEST_CASE("the tree says when costs were measured, or that they are not") {
  Inventory host = samples::host("a");
  host.costs = Costs();
  CHECK(to_tree(host).find("costs, not measured: defaults\n") != std::string::npos);
  host.costs.wake_ns = {20'000, Origin::kProbe};
  host.costs.measured_at_s = 1'700'000'000;
  CHECK(to_tree(host).find("costs, measured 2023-11-14 22:13 UTC\n") != std::string::npos);
  host.costs.measured_at_s = 0;
  CHECK(to_tree(host).find("costs\n") != std::string::npos);
}
