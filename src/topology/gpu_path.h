// The ways between the GPUs of a host, and from a GPU to other hosts: which wires data takes there, what each carries,
// and which of them are shared.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.h"

namespace tutti {

// A part of a way in one direction. What takes it shares its bandwidth; it is known by its name within the host.
struct PathWire {
  std::string name;  // "NVLink out of gpu 0", "PCIe up from 0000:18:00.0"
  Figure bytes_per_s;
  friend bool operator==(const PathWire&, const PathWire&) = default;
};

struct GpuPath {
  LinkKind kind = LinkKind::kSameGpu;
  std::vector<PathWire> wires;  // in the order in which data takes them; none within one GPU
  Figure latency_ns;        // one way, small message
  Figure bytes_per_s;       // the least of the wires', or of the GPU's memory
  friend bool operator==(const GpuPath&, const GpuPath&) = default;
};

// The best way from GPU `from` to GPU `to` (indices into host.gpus): by NVLink where both have it to each other or to
// the switches, else by PCIe as high up as they have no bridge in common. The way back has as many wires, alike.
GpuPath path_between(const Inventory& host, int from, int to);

// The NIC that the GPU's data leaves the host by: of those that are up and do RDMA, the one with the least distance on
// PCIe; of those at one distance they take turns by the GPU's index. Null where the host has none. Borrowed.
const Nic* nearest_nic(const Inventory& host, int gpu);
// The way from the GPU to the network by that NIC, or with `inward` back; nearest_nic() must be there.
GpuPath path_to_network(const Inventory& host, int gpu, bool inward);

// The way between the GPU and its host's memory.
GpuPath path_to_host(const Inventory& host, int gpu, bool inward);

// Between GPUs of one host, by path_between() them.
TopologyLink gpu_link(const GpuPath& path);
// Between those of two hosts, by path_to_network() of the one, and of the other inward.
TopologyLink rdma_link(const TopologyHost& a, const GpuPath& out, const TopologyHost& b, const GpuPath& in);

// Of the GPU's memory, reads and writes together.
Figure memory_bytes_per_s(const Gpu& gpu);

}  // namespace tutti
