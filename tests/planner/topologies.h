// Topologies made by hand, so that the planner's tests need no machine.
#pragma once

#include "topology/topology.h"

namespace tutti::test {

// `hosts` hosts with `ranks_per_host` ranks each, in order, and `cpus` processors each.
inline Topology make_topology(int hosts, int ranks_per_host, int cpus = 64) {
  Topology topology;
  for (int h = 0; h < hosts; ++h) {
    TopologyHost host;
    host.inventory.hostname = "host" + std::to_string(h);
    host.inventory.identity.boot_id = host.inventory.hostname;
    host.inventory.cpu.logical_cpus = cpus;
    host.inventory.caches = {{2, 1024 * 1024, cpus, 1}};
    host.network_latency_ns = {20'000, Origin::kDefault};
    host.network_bytes_per_s = {1'250'000'000, Origin::kDefault};
    for (int r = 0; r < ranks_per_host; ++r) {
      TopologyRank rank;
      rank.host = h;
      rank.local_rank = r;
      rank.pid = 1000 + r;
      rank.identity = host.inventory.identity;
      host.ranks.push_back(topology.nranks());
      topology.ranks.push_back(rank);
    }
    topology.hosts.push_back(host);
  }
  return topology;
}

// The same with so many RDMA ports for each rank.
inline Topology with_rdma(int hosts, int ranks_per_host = 1, int lanes = 1) {
  Topology topology = make_topology(hosts, ranks_per_host);
  for (TopologyRank& rank : topology.ranks) rank.rdma_lanes = lanes;
  return topology;
}

}  // namespace tutti::test
