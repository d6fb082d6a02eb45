#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "topology/gpu_path.h"
#include "topology/topology.h"

namespace tutti {
namespace {

// Of two figures the one that limits; of equal ones the one with the weaker origin, so that the order does not matter.
Figure least(const Figure& a, const Figure& b) {
  if (a.value != b.value) return a.value < b.value ? a : b;
  return a.origin < b.origin ? a : b;
}

Figure most(const Figure& a, const Figure& b) {
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.origin < b.origin ? a : b;
}

// A sum is known as well as its less well known part.
Figure sum(const Figure& a, const Figure& b) { return {a.value + b.value, std::min(a.origin, b.origin)}; }

TopologyLink mapped_link(LinkKind kind, bool pull, const Costs& costs) {
  return {kind, true, pull, costs.cache_line_ns, costs.copy_bytes_per_s};
}

// Between hosts of two fabrics no more than either of these takes.
void bound_by_fabrics(TopologyLink& link, const TopologyHost& a, const TopologyHost& b) {
  if (a.inventory.fabric == b.inventory.fabric) return;
  for (const TopologyHost* host : {&a, &b}) {
    const Figure& figure = host->inventory.fabric_bytes_per_s;
    if (figure.value != 0) link.bytes_per_s = least(link.bytes_per_s, figure);
  }
}

TopologyLink tcp_link(const TopologyHost& a, const TopologyHost& b) {
  const Costs& from = a.inventory.costs;
  const Costs& to = b.inventory.costs;
  TopologyLink link{LinkKind::kTcp, false, false, most(from.tcp_ns, to.tcp_ns),
                    least(from.tcp_bytes_per_s, to.tcp_bytes_per_s)};
  // Network namespaces of one kernel hand packets over in memory.
  bool same_kernel =
      !a.inventory.identity.boot_id.empty() && a.inventory.identity.boot_id == b.inventory.identity.boot_id;
  if (same_kernel) return link;
  link.latency_ns = sum(link.latency_ns, most(a.network_latency_ns, b.network_latency_ns));
  link.bytes_per_s = least(link.bytes_per_s, least(a.network_bytes_per_s, b.network_bytes_per_s));
  bound_by_fabrics(link, a, b);
  return link;
}

// Between ranks that both have an RDMA device, or several. What the kernel does for TCP falls away; the wires stay.
TopologyLink verbs_link(const TopologyHost& a, const TopologyHost& b, int lanes) {
  TopologyLink link{LinkKind::kVerbs, false, false, {3'000, Origin::kDefault},
                    least(a.network_bytes_per_s_over(lanes), b.network_bytes_per_s_over(lanes))};
  auto is_known = [](const Figure& figure) { return figure.origin >= Origin::kProbe; };
  if (is_known(a.network_latency_ns) && is_known(b.network_latency_ns)) {
    link.latency_ns = most(a.network_latency_ns, b.network_latency_ns);
  }
  bound_by_fabrics(link, a, b);
  return link;
}

}  // namespace

TopologyLink gpu_link(const GpuPath& path) {
  return {path.kind, true, false, path.latency_ns, path.bytes_per_s};
}

TopologyLink rdma_link(const TopologyHost& a, const GpuPath& out, const TopologyHost& b, const GpuPath& in) {
  TopologyLink link{LinkKind::kRdma, false, false, most(out.latency_ns, in.latency_ns),
                    least(out.bytes_per_s, in.bytes_per_s)};
  // What somebody has measured or written is better than what the devices tell.
  auto is_known = [](const Figure& figure) { return figure.origin >= Origin::kProbe; };
  for (const TopologyHost* host : {&a, &b}) {
    if (is_known(host->network_bytes_per_s)) link.bytes_per_s = least(link.bytes_per_s, host->network_bytes_per_s);
  }
  if (is_known(a.network_latency_ns) && is_known(b.network_latency_ns)) {
    link.latency_ns = most(a.network_latency_ns, b.network_latency_ns);
  }
  bound_by_fabrics(link, a, b);
  return link;
}

bool Topology::same_process(int a, int b) const {
  const TopologyRank& x = ranks[a];
  const TopologyRank& y = ranks[b];
  return x.host == y.host && x.pid == y.pid && x.identity.pid_namespace == y.identity.pid_namespace &&
         x.identity.user_namespace == y.identity.user_namespace;
}

bool Topology::may_link_gpus(int a, int b) const {
  return forced_transport.empty() && ranks[a].gpu >= 0 && ranks[b].gpu >= 0;
}

TopologyLink Topology::link(int a, int b) const {
  TUTTI_CHECK(a >= 0 && a < nranks() && b >= 0 && b < nranks());
  const TopologyHost& host = hosts[ranks[a].host];
  const Costs& costs = host.inventory.costs;
  if (a == b) return {LinkKind::kSelf, true, true, {0, costs.copy_bytes_per_s.origin}, costs.copy_bytes_per_s};
  const TopologyHost& other = hosts[ranks[b].host];
  bool by_gpu = may_link_gpus(a, b);
  if (by_gpu && &host == &other) return gpu_link(path_between(host.inventory, ranks[a].gpu, ranks[b].gpu));
  if (by_gpu && nearest_nic(host.inventory, ranks[a].gpu) && nearest_nic(other.inventory, ranks[b].gpu)) {
    return rdma_link(host, path_to_network(host.inventory, ranks[a].gpu, false), other,
                     path_to_network(other.inventory, ranks[b].gpu, true));
  }
  // Planning asks for the links of all pairs of ranks: names are compared only where there is one.
  bool is_forced = !forced_transport.empty();
  bool by_verbs = is_forced ? forced_transport == "verbs" : &host != &other;
  int lanes = std::min(ranks[a].rdma_lanes, ranks[b].rdma_lanes);
  if (by_verbs && lanes > 0) return verbs_link(host, other, lanes);
  if (&host != &other || (is_forced && forced_transport == "tcp")) return tcp_link(host, other);

  const HostIdentity& x = ranks[a].identity;
  const HostIdentity& y = ranks[b].identity;
  bool one_process = same_process(a, b);
  // process_vm_readv names the peer by its pid and needs the right to trace it.
  bool pull = one_process || (x.pid_namespace == y.pid_namespace && x.user_namespace == y.user_namespace &&
                              host.inventory.limits.ptrace_scope == 0);
  bool loopback = one_process && forced_transport != "shm";
  return mapped_link(loopback ? LinkKind::kLoopback : LinkKind::kShm, pull, costs);
}

Inventory Topology::inventory_of(int rank) const {
  const TopologyRank& self = ranks[rank];
  Inventory inventory = hosts[self.host].inventory;
  inventory.identity = self.identity;
  inventory.cpu.allowed_cpus = self.cpus;
  return inventory;
}

int Topology::max_ranks_per_host() const {
  size_t most_ranks = 0;
  for (const TopologyHost& host : hosts) most_ranks = std::max(most_ranks, host.ranks.size());
  return static_cast<int>(most_ranks);
}

bool Topology::oversubscribed() const {
  return std::any_of(hosts.begin(), hosts.end(), [](const TopologyHost& host) {
    return host.ranks.size() > host.inventory.cpu.usable();
  });
}

bool Topology::joined_by_rdma() const {
  return rdma_lanes() > 0 && (forced_transport == "verbs" || max_ranks_per_host() == 1);
}

int Topology::rdma_lanes() const {
  bool is_used = forced_transport == "verbs" || (forced_transport.empty() && hosts.size() > 1);
  if (!is_used || ranks.empty()) return 0;
  auto has_fewer = [](const TopologyRank& x, const TopologyRank& y) { return x.rdma_lanes < y.rdma_lanes; };
  return std::min_element(ranks.begin(), ranks.end(), has_fewer)->rdma_lanes;
}

Figure TopologyHost::network_bytes_per_s_over(int lanes) const {
  if (network_bytes_per_s.origin >= Origin::kProbe) return network_bytes_per_s;
  return {network_bytes_per_s.value * static_cast<uint64_t>(lanes), network_bytes_per_s.origin};
}

bool Topology::has_gpu_ranks() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const TopologyRank& rank) { return rank.gpu >= 0; });
}

}  // namespace tutti
