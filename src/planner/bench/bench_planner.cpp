// How long planning takes: what a rank does before its first call of a kind, and proving all ranks' parts together.
// Arguments: numbers of hosts, each with 8 ranks, once in its memory and once on a GPU each; without any 1, 8 and 125.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "plan/resolve.h"
#include "plan/validate.h"
#include "planner/planner.h"
#include "topology/topology.h"

namespace tutti {
namespace {

constexpr int kRanksPerHost = 8;
constexpr int kHostsPerFabric = 5;
constexpr int kRounds = 3;

Topology cluster(int hosts) {
  Inventory host;
  host.hostname = host.identity.boot_id = "host";
  host.cpu.logical_cpus = 64;
  return placed(host, {.nranks = hosts * kRanksPerHost, .hosts = hosts});
}

// A GPU and a network device for each rank, the GPUs of a host joined by switches.
Topology gpu_cluster(int hosts) {
  Inventory host;
  host.hostname = host.identity.boot_id = "host";
  for (int i = 0; i < kRanksPerHost; ++i) {
    NvLink links{.to_switch = true, .links = 18, .bytes_per_s = {23'500'000'000, Origin::kSpec}};
    host.gpus.push_back({.pci_address = fmt::format("0000:{}0:00.0", i + 1), .nvlinks = {links}});
    host.nics.push_back({.name = fmt::format("rdma{}", i), .speed_mbps = 400'000, .up = true, .rdma = true});
  }
  Topology topology = placed(host, {.nranks = hosts * kRanksPerHost, .hosts = hosts, .on_gpus = true});
  for (int h = 0; h < hosts; ++h) topology.hosts[h].inventory.fabric = fmt::format("fabric {}", h / kHostsPerFabric);
  return topology;
}

template <class Body>
double median_ms(Body body) {
  std::vector<double> all;
  for (int i = 0; i < kRounds; ++i) {
    auto before = std::chrono::steady_clock::now();
    body();
    all.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - before).count());
  }
  std::sort(all.begin(), all.end());
  return all[kRounds / 2];
}

void must(const Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "bench_planner: {}\n", status.message());
  std::exit(1);
}

void measure(const Topology& topology, Collective collective, uint64_t size_bytes) {
  Request request{.collective = collective, .count = size_bytes / sizeof(float)};
  if (collective == TUTTI_BROADCAST) request.root = 0;
  std::string algorithm;
  double choosing = median_ms([&] {
    auto choice = choose(topology, request, {});
    must(choice.status());
    algorithm = choice->plan.shape().algorithm;
  });
  Plan plan = choose(topology, request, {})->plan;
  double one_part = median_ms([&] {
    for (int channel = 0; channel < plan.shape().channels; ++channel) {
      must(resolve(plan.shape(), plan.part(1, channel), 1, channel).status());
    }
  });
  double all_parts = median_ms([&] { must(validate(plan, {.slices = 1})); });
  fmt::print("{:>6} {:>6} {:>14} {:>10} {:<22} {:>10.3f} {:>10.3f} {:>10.1f}\n", topology.nranks(),
             topology.has_gpu_ranks() ? "GPUs" : "hosts", name_of(collective), size_bytes, algorithm, choosing,
             one_part, all_parts);
}

}  // namespace
}  // namespace tutti

int main(int argc, char** argv) {
  using namespace tutti;
  std::vector<int> hosts;
  for (int i = 1; i < argc; ++i) hosts.push_back(std::atoi(argv[i]));
  if (hosts.empty()) hosts = {1, 8, 125};
  fmt::print("Milliseconds, median of {}: to choose among all algorithms; to make and check one rank's part, as a\n"
             "rank does; to make all ranks' parts and run them together, as only tests and plan files need.\n\n",
             kRounds);
  fmt::print("{:>6} {:>6} {:>14} {:>10} {:<22} {:>10} {:>10} {:>10}\n", "ranks", "on", "collective", "bytes",
             "algorithm", "choose", "one part", "all parts");
  for (int n : hosts) {
    if (n < 1) {
      fmt::print(stderr, "bench_planner: '{}' hosts: give whole numbers of at least 1\n", n);
      return 2;
    }
    for (const Topology& topology : {cluster(n), gpu_cluster(n)}) {
      for (Collective collective :
           {TUTTI_ALL_REDUCE, TUTTI_REDUCE_SCATTER, TUTTI_ALL_GATHER, TUTTI_BROADCAST, TUTTI_ALL_TO_ALL}) {
        for (uint64_t size_bytes : {uint64_t{8} << 10, uint64_t{1} << 20, uint64_t{1} << 30}) {
          measure(topology, collective, size_bytes);
        }
      }
    }
  }
  return 0;
}
