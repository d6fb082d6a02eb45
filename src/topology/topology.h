// Topology: all ranks, their hosts, and the links between them with bandwidth, latency and the origin of each figure. A
// plain value, merged once from every rank's Inventory and then byte-identical on all ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "topology/inventory.h"

namespace tutti {

enum class LinkKind : uint8_t {
  kSelf,      // a rank and itself
  kLoopback,  // two ranks in one process
  kShm,       // two processes that can map each other's memory
  kTcp,
  kVerbs,     // between two hosts, by RDMA devices of the ranks
  // Between ranks that sit on GPUs; src/topology/gpu_path.h finds them.
  kSameGpu,
  kNvlink,      // directly
  kNvswitch,
  kPcieSwitch,  // one or more, below the processors
  kHostBridge,  // through the processors of one NUMA node
  kSockets,     // from NUMA node to NUMA node
  kRdma,        // from GPU memory to another host's, by network devices near them
};
std::string_view name_of(LinkKind kind);

struct TopologyLink {
  LinkKind kind = LinkKind::kSelf;
  bool mapped = false;  // loads and stores reach the peer's exported memory
  bool pull = false;    // the peer's private memory can be read (cross-memory attach)
  Figure latency_ns;    // one way, small message, receiver awake
  Figure bytes_per_s;   // one direction, large messages, payload
  friend bool operator==(const TopologyLink&, const TopologyLink&) = default;
};

inline constexpr int kMostRdmaLanes = 4;

struct TopologyHost {
  // The first rank's, except cpu.allowed_cpus: the union over this host's ranks (a launcher may bind each to its own
  // cores).
  Inventory inventory;
  std::vector<int> ranks;  // ascending; their indices here are the local ranks
  // What the network adds between this host and others; from the fastest interface unless the user says otherwise.
  Figure network_latency_ns;
  Figure network_bytes_per_s;
  // Over so many interfaces like that one. What was measured or written stays: it is of all that there are.
  Figure network_bytes_per_s_over(int lanes) const;
  friend bool operator==(const TopologyHost&, const TopologyHost&) = default;
};

// Whether the host has more ranks than processors.
inline bool takes_turns(const TopologyHost& host) { return host.ranks.size() > host.inventory.cpu.usable(); }

struct TopologyRank {
  int host = 0;  // index into hosts
  int local_rank = 0;
  int64_t pid = 0;        // in its own pid namespace
  HostIdentity identity;  // containers of one host may differ in pid, mount and user namespace
  std::vector<int> cpus;  // its affinity mask
  int gpu = -1;           // index into its host's gpus; -1: its data is in the host's memory
  int rdma_lanes = 0;     // RDMA ports that it uses side by side; 0: it has opened none
  friend bool operator==(const TopologyRank&, const TopologyRank&) = default;
};

// What one rank contributes to the merge.
struct RankFacts {
  Inventory inventory;
  int64_t pid = 0;
  int rdma_lanes = 0;  // as in TopologyRank
  friend bool operator==(const RankFacts&, const RankFacts&) = default;
};

class Topology {
 public:
  std::vector<TopologyHost> hosts;
  std::vector<TopologyRank> ranks;
  // Transport forced by the user ("tcp"), "" for the best that reaches: enters here so that all ranks agree on it.
  std::string forced_transport;

  int nranks() const { return static_cast<int>(ranks.size()); }
  // Computed from the two hosts' facts, so n ranks need no n*n table. Symmetric.
  TopologyLink link(int a, int b) const;
  bool same_process(int a, int b) const;
  // Whether both sit on GPUs and no transport is forced: they are linked by what is between these, if there is a way.
  bool may_link_gpus(int a, int b) const;
  // The facts of `rank`'s host as that rank sees them: with its own namespaces and affinity mask.
  Inventory inventory_of(int rank) const;
  // Most ranks on one host, and that host's ranks per allowed CPU: above 1 the ranks take turns.
  int max_ranks_per_host() const;
  bool oversubscribed() const;
  // Whether each rank reaches each other one by RDMA alone.
  bool joined_by_rdma() const;
  // Of the rank that has the fewest of them, where ranks of several hosts reach each other by RDMA; 0: where not.
  int rdma_lanes() const;
  // Whether any rank sits on a GPU. Communicators of today have none: what they have on devices is staged through the
  // host.
  bool has_gpu_ranks() const;
  // 64-bit digest of to_json(): ranks compare it.
  uint64_t digest() const;

  friend bool operator==(const Topology&, const Topology&) = default;
};

// Whether ranks of a host, too, reach each other over a network alone, since the user wants that.
inline bool is_by_network_alone(const Topology& topology) {
  return topology.forced_transport == "tcp" || topology.forced_transport == "verbs";
}

// All links, those that are alike together, in the order of their first pair. A rank's link to itself is left out.
struct LinkClass {
  TopologyLink link;
  uint64_t pairs = 0;
  int first_a = 0;  // the first pair
  int first_b = 0;
  friend bool operator==(const LinkClass&, const LinkClass&) = default;
};
std::vector<LinkClass> link_classes(const Topology& topology);

// Groups ranks whose host identities share a kernel and a network namespace; figures of one host are taken from its
// first rank. Errors: an empty list; hosts of different byte order; two ranks that the forced transport (or any) cannot
// link.
Result<Topology> merge(std::span<const RankFacts> ranks, std::string_view forced_transport);

// Ranks to plan for where there are none to ask.
struct Placement {
  int nranks = 1;        // of all hosts together, at least one on each: the first ones are on the first host
  int hosts = 1;         // alike, with "-0", "-1" ... after their names where there are several
  bool on_gpus = false;  // local rank i sits on GPU i; where there are fewer, ranks after each other share one
};
// Their pids are made up. `on_gpus` asks for a host that has some.
Topology placed(const Inventory& inventory, const Placement& placement);
// `nranks` (at least 1) processes on one host, none of them on a GPU.
Topology single_host(const Inventory& inventory, int nranks);

// JSON, versioned, as for Inventory. The links are written too, for readers; they follow from the hosts' figures, so a
// file that says otherwise is refused.
std::string to_json(const Topology& topology);
Result<Topology> parse_topology(std::string_view json);

// A tree for people.
std::string to_tree(const Topology& topology);
std::string to_tree(const Inventory& inventory);

}  // namespace tutti
