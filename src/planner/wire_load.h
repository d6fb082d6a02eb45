// What a call brings onto each wire between GPUs, and into their memories: where ranks sit on GPUs, the busiest of
// these bounds its time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "topology/gpu_path.h"
#include "topology/topology.h"

namespace tutti {

// Whether data goes from GPU to GPU without the host's memory.
bool is_between_gpus(LinkKind kind);

class WireLoad {
 public:
  // `topology` outlives it.
  explicit WireLoad(const Topology& topology);
  WireLoad(const WireLoad&) = delete;

  // As the topology says, without looking for a way between two GPUs twice.
  TopologyLink link(int from, int to);
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
  // Where ways lead from a GPU, or from where to it, but to other GPUs of the host.
  enum class End : uint8_t { kToNetwork, kFromNetwork, kToHost, kFromHost, kMemory };
  static constexpr int kEnds = 5;

  // Hosts whose GPUs have the same ways.
  struct Devices {
    const Inventory* inventory = nullptr;       // of the first of them
    std::vector<bool> reach_network;            // by GPU
    std::vector<std::optional<GpuPath>> paths;  // as ways are numbered
  };
  struct Way {
    const GpuPath* path = nullptr;  // null: not yet looked for
    std::vector<size_t> wires;      // in wires_
  };
  struct Host {
    size_t devices = 0;  // in devices_
    size_t fabric = 0;   // in fabrics_
    int gpus = 0;
    std::vector<Way> ways;  // of the first GPU, the second ...
  };
  // What leads out of a fabric and into it; in wires_.
  struct Fabric {
    std::string name;
    std::optional<size_t> out, in;
  };
  struct Wire {
    std::string name;
    uint64_t bytes_per_s = 1;
  };

  size_t devices_of(const Inventory& inventory);
  size_t fabric_of(const Inventory& inventory);
  bool are_joined_by_network(int from, int to) const;
  // `number`: of the GPU to which it leads, or after these of the End.
  const Way& way(int host, int gpu, int number);
  const Way& way_to(int host, int gpu, End end);
  GpuPath find(const Inventory& inventory, int gpu, int number) const;
  void leave_fabric(int from, int to, uint64_t bytes);
  size_t edge(std::optional<size_t>& known, const Fabric& fabric, std::string_view direction);
  size_t wire(int host, const std::string& name, const Figure& bytes_per_s);
  void add(const Way& way, uint64_t bytes);
  void add(size_t wire, uint64_t bytes);

  const Topology& topology_;
  std::vector<Devices> devices_;
  std::vector<Fabric> fabrics_;
  std::vector<Host> hosts_;
  std::map<std::pair<int, std::string>, size_t> index_;  // of wires, by host and name
  std::vector<Wire> wires_;
  std::vector<uint64_t> bytes_;  // on each of them; apart, since all sends come by
};

}  // namespace tutti
