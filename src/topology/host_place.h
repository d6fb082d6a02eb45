// Where a rank is on its host, for what only that decides: which of several network devices it uses.
#pragma once

#include <vector>

namespace tutti {

class Topology;

struct HostPlace {
  std::vector<int> numa_nodes;  // that its processors are on, ascending; empty: unknown
  int turn = 0;                 // of the host's ranks on these nodes, from 0
  friend bool operator==(const HostPlace&, const HostPlace&) = default;
};

HostPlace place_of(const Topology& topology, int rank);

}  // namespace tutti
