// What a call brings onto each wire between GPUs, and into their memories: where ranks sit on GPUs, the busiest of
// these bounds its time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "topology/topology.h"

namespace tutti {

// Whether data goes from GPU to GPU without the host's memory.
bool is_between_gpus(LinkKind kind);

class WireLoad {
 public:
  // `topology` outlives it.
  explicit WireLoad(const Topology& topology) : topology_(topology) {}

  // As the topology says, found once for each pair of GPUs.
  const TopologyLink& link(int from, int to) { return way(from, to).link; }
  // Onto all wires from the GPU of one to that of the other; where no link is between them, from the one and to the
  // other one's host. Between hosts of two fabrics onto what leads out of the one and into the other.
  void send(int from, int to, uint64_t bytes);
  // Reads and writes of the memory that the rank's GPU has.
  void touch(int rank, uint64_t bytes);

  struct Busiest {
    uint64_t ns = 0;
    std::string wire;  // "NVLink out of gpu 3"
  };
  Busiest busiest() const;

 private:
  struct Loaded {
    std::string name;
    uint64_t bytes_per_s = 1;
    uint64_t bytes = 0;
  };
  struct Way {
    TopologyLink link;
    std::vector<size_t> wires;  // in loaded_
  };

  const Way& way(int from, int to);
  void leave_fabric(int from, int to, std::vector<size_t>& wires);
  size_t wire(int host, const std::string& name, const Figure& bytes_per_s);
  void add(size_t wire, uint64_t bytes);

  const Topology& topology_;
  std::map<std::tuple<int, int, int, int>, Way> ways_;  // by host and GPU of both ends; without a GPU by the rank
  std::map<std::pair<int, std::string>, size_t> index_;
  std::vector<Loaded> loaded_;
};

}  // namespace tutti
