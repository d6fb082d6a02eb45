#include "topology/gpu_path.h"

#include <catch2/catch.hpp>

#include "tests/topology/nccl_samples.h"
#include "tests/topology/samples.h"

using namespace tutti;
using samples::nccl_host;

namespace {

constexpr uint64_t kGen4x16 = 28'807'032'966, kNvLink4 = 23'529'411'764;

std::vector<std::string> names(const GpuPath& path) {
  std::vector<std::string> all;
  for (const PathWire& wire : path.wires) all.push_back(wire.name);
  return all;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("GPUs at NVSwitches reach each other by all of their links") {
  Inventory host = nccl_host("eight-gpus-nvswitch");
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      GpuPath path = path_between(host, a, b);
      CHECK(path.kind == (a == b ? LinkKind::kSameGpu : LinkKind::kNvswitch));
      if (a != b) CHECK(path.bytes_per_s == Figure{18 * kNvLink4, Origin::kSpec});
    }
  }
  CHECK(names(path_between(host, 2, 5)) == Names{"NVLink out of gpu 2", "NVLink into gpu 5"});
}

TEST_CASE("GPUs with links to each other need no switch") {
  Inventory host = nccl_host("four-gpus-nvlink");
  GpuPath path = path_between(host, 1, 3);
  CHECK(path.kind == LinkKind::kNvlink);
  CHECK(path.bytes_per_s == Figure{4 * kNvLink4, Origin::kSpec});
  CHECK(names(path) == Names{"NVLink from gpu 1 to gpu 3"});
  // A link that only one side has is none.
  host.gpus[1].nvlinks.clear();
  CHECK(path_between(host, 1, 3).kind == LinkKind::kSockets);
  CHECK(path_between(host, 3, 1).kind == LinkKind::kSockets);
}

TEST_CASE("on PCIe the way goes up to the first bridge that both have above them") {
  Inventory host = nccl_host("eight-gpus-pcie");
  GpuPath near = path_between(host, 0, 1);
  CHECK(near.kind == LinkKind::kPcieSwitch);
  CHECK(near.bytes_per_s == Figure{kGen4x16, Origin::kSpec});
  CHECK(names(near) == Names{"PCIe up from 0000:21:00.0", "PCIe down to 0000:22:00.0"});
  GpuPath bridge = path_between(host, 1, 2);
  CHECK(bridge.kind == LinkKind::kHostBridge);
  CHECK(names(bridge) == Names{"PCIe up from 0000:22:00.0", "PCIe up from 0000:20:00.0", "PCIe down to 0000:40:00.0",
                               "PCIe down to 0000:41:00.0"});
  GpuPath far = path_between(host, 1, 6);
  CHECK(far.kind == LinkKind::kSockets);
  CHECK(far.bytes_per_s == Figure{16'000'000'000, Origin::kDefault});
  CHECK(names(far)[2] == "numa 0 to numa 1");
  CHECK(near.latency_ns.value < bridge.latency_ns.value);
  CHECK(bridge.latency_ns.value < far.latency_ns.value);
}

TEST_CASE("the slowest wire of a way is what it carries") {
  Inventory host = nccl_host("eight-gpus-pcie");
  host.gpus[2].pci_path.front().bytes_per_s = {3'000'000'000, Origin::kUser};
  CHECK(path_between(host, 2, 3).bytes_per_s == Figure{3'000'000'000, Origin::kUser});
  CHECK(path_between(host, 3, 2).bytes_per_s == Figure{3'000'000'000, Origin::kUser});
  CHECK(path_between(host, 0, 1).bytes_per_s.value == kGen4x16);
}

TEST_CASE("GPUs of which nothing but an address is known are below the processors") {
  Inventory host = samples::host("a");
  host.gpus.push_back({"GPU-2", "Example GPU", "0000:03:00.0", 1});
  CHECK(path_between(host, 0, 1).kind == LinkKind::kHostBridge);
  CHECK(path_between(host, 0, 1).bytes_per_s.origin == Origin::kDefault);
  host.gpus[1].numa_node = 0;
  CHECK(path_between(host, 0, 1).kind == LinkKind::kSockets);
}

TEST_CASE("a GPU leaves the host by the device nearest to it") {
  Inventory host = nccl_host("eight-gpus-nvswitch");
  for (int gpu = 0; gpu < 8; ++gpu) {
    REQUIRE(nearest_nic(host, gpu) != nullptr);
    CHECK(nearest_nic(host, gpu)->name == fmt::format("mlx5_{}", gpu));
  }
  GpuPath out = path_to_network(host, 3, false);
  CHECK(names(out) == Names{"PCIe up from 0000:42:00.0", "PCIe down to 0000:44:00.0", "mlx5_3 out"});
  CHECK(out.bytes_per_s == Figure{47'000'000'000, Origin::kSpec});  // 400 Gbit/s
  CHECK(names(path_to_network(host, 3, true)) ==
        Names{"mlx5_3 in", "PCIe up from 0000:44:00.0", "PCIe down to 0000:42:00.0"});
  host.nics[3].up = false;  // then another one of its NUMA node
  CHECK(nearest_nic(host, 3)->numa_node == 0);
  CHECK(nearest_nic(nccl_host("eight-gpus-pcie"), 7)->name == "mlx5_0");
  CHECK(nearest_nic(samples::host("a"), 0) == nullptr);
}

TEST_CASE("links of ranks on GPUs are the ways between these, and ranks in the host's memory have the host's") {
  Topology topology = placed(nccl_host("eight-gpus-nvswitch"), {.nranks = 32, .hosts = 2, .on_gpus = true});
  CHECK(topology.link(0, 1).kind == LinkKind::kSameGpu);  // two ranks for each GPU
  CHECK(topology.link(0, 2).kind == LinkKind::kNvswitch);
  CHECK(topology.link(0, 2).mapped);
  CHECK(topology.link(0, 16).kind == LinkKind::kRdma);
  CHECK(topology.link(0, 16).bytes_per_s.value == 47'000'000'000);
  topology.ranks[1].gpu = -1;
  CHECK(topology.link(0, 1).kind == LinkKind::kShm);
  CHECK(topology.link(1, 16).kind == LinkKind::kTcp);
  topology.hosts[1].network_bytes_per_s = {5'000'000'000, Origin::kUser};
  CHECK(topology.link(0, 16).bytes_per_s == Figure{5'000'000'000, Origin::kUser});
  topology.forced_transport = "tcp";
  CHECK(topology.link(0, 2).kind == LinkKind::kTcp);
  CHECK(topology.link(0, 16).kind == LinkKind::kTcp);
}
