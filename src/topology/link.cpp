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

// Between ranks whose hosts both have an RDMA device. What the kernel does for TCP falls away; the wire stays.
TopologyLink verbs_link(const TopologyHost& a, const TopologyHost& b) {
  TopologyLink link{LinkKind::kVerbs, false, false, {3'000, Origin::kDefault},
                    least(a.network_bytes_per_s, b.network_bytes_per_s)};
  auto is_known = [](const Figure& figure) { return figure.origin >= Origin::kProbe; };
  if (is_known(a.network_latency_ns) && is_known(b.network_latency_ns)) {
    link.latency_ns = most(a.network_latency_ns, b.network_latency_ns);
  }
  bound_by_fabrics(link, a, b);
  return link;
}

TopologyLink gpu_link(const Inventory& host, int a, int b) {
  GpuPath path = path_between(host, a, b);
  return {path.kind, true, false, path.latency_ns, path.bytes_per_s};
}

// Between GPUs of two hosts that both have a network device for that.
TopologyLink rdma_link(const TopologyHost& a, int gpu_a, const TopologyHost& b, int gpu_b) {
  GpuPath out = path_to_network(a.inventory, gpu_a, false);
  GpuPath in = path_to_network(b.inventory, gpu_b, true);
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

}  // namespace

bool Topology::same_process(int a, int b) const {
  const TopologyRank& x = ranks[a];
  const TopologyRank& y = ranks[b];
  return x.host == y.host && x.pid == y.pid && x.identity.pid_namespace == y.identity.pid_namespace &&
         x.identity.user_namespace == y.identity.user_namespace;
}

TopologyLink Topology::link(int a, int b) const {
  TUTTI_CHECK(a >= 0 && a < nranks() && b >= 0 && b < nranks());
  const TopologyHost& host = hosts[ranks[a].host];
  const Costs& costs = host.inventory.costs;
  if (a == b) return {LinkKind::kSelf, true, true, {0, costs.copy_bytes_per_s.origin}, costs.copy_bytes_per_s};
  const TopologyHost& other = hosts[ranks[b].host];
  bool by_gpu = forced_transport.empty() && ranks[a].gpu >= 0 && ranks[b].gpu >= 0;
  if (by_gpu && &host == &other) return gpu_link(host.inventory, ranks[a].gpu, ranks[b].gpu);
  if (by_gpu && nearest_nic(host.inventory, ranks[a].gpu) && nearest_nic(other.inventory, ranks[b].gpu)) {
    return rdma_link(host, ranks[a].gpu, other, ranks[b].gpu);
  }
  bool by_verbs = forced_transport == "verbs" || (&host != &other && forced_transport.empty());
  if (by_verbs && ranks[a].verbs && ranks[b].verbs) return verbs_link(host, other);
  if (&host != &other || forced_transport == "tcp") return tcp_link(host, other);

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
  bool all_have = std::all_of(ranks.begin(), ranks.end(), [](const TopologyRank& rank) { return rank.verbs; });
  return all_have && (forced_transport == "verbs" || (forced_transport.empty() && max_ranks_per_host() == 1));
}

bool Topology::has_gpu_ranks() const {
  return std::any_of(ranks.begin(), ranks.end(), [](const TopologyRank& rank) { return rank.gpu >= 0; });
}

}  // namespace tutti
