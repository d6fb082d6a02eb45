// All links of a topology by kind and figures, without looking at every pair of ranks.
#include <algorithm>
#include <climits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "topology/gpu_path.h"
#include "topology/topology.h"

namespace tutti {
namespace {

uint64_t pairs_of(uint64_t count) { return count * (count - 1) / 2; }

class Classes {
 public:
  explicit Classes(const Topology& topology) : topology_(topology) {}

  // `pairs` pairs are alike; (a, b) is the first of them.
  void add(int a, int b, uint64_t pairs) {
    std::pair<int, int> ends = std::minmax(a, b);
    TopologyLink link = topology_.link(a, b);
    auto [entry, fresh] = classes_.try_emplace(key_of(link), LinkClass{link, 0, ends.first, ends.second});
    LinkClass& alike = entry->second;
    alike.pairs += pairs;
    std::tie(alike.first_a, alike.first_b) = std::min(std::pair(alike.first_a, alike.first_b), ends);
  }

  std::vector<LinkClass> sorted() const {
    std::vector<LinkClass> all;
    for (const auto& [unused, each] : classes_) all.push_back(each);
    std::sort(all.begin(), all.end(), [](const LinkClass& x, const LinkClass& y) {
      return std::pair(x.first_a, x.first_b) < std::pair(y.first_a, y.first_b);
    });
    return all;
  }

 private:
  using Key = std::tuple<LinkKind, bool, bool, uint64_t, Origin, uint64_t, Origin>;
  static Key key_of(const TopologyLink& link) {
    return {link.kind,
            link.mapped,
            link.pull,
            link.latency_ns.value,
            link.latency_ns.origin,
            link.bytes_per_s.value,
            link.bytes_per_s.origin};
  }

  const Topology& topology_;
  std::map<Key, LinkClass> classes_;
};

// The ranks of one host that share their namespaces and their GPU, or have none, by process; each list ascends.
struct Group {
  std::vector<int> ranks;
  std::map<int64_t, std::vector<int>> processes;
};

std::vector<Group> groups_of(const Topology& topology, const TopologyHost& host) {
  std::map<std::tuple<uint64_t, uint64_t, int>, Group> by_place;
  for (int rank : host.ranks) {
    const TopologyRank& facts = topology.ranks[rank];
    Group& group = by_place[{facts.identity.pid_namespace, facts.identity.user_namespace, facts.gpu}];
    group.ranks.push_back(rank);
    group.processes[facts.pid].push_back(rank);
  }
  std::vector<Group> groups;
  for (auto& [unused, group] : by_place) groups.push_back(std::move(group));
  return groups;
}

// A rank of `group` in another process than `rank`; -1: there is none.
int in_another_process(const Topology& topology, const Group& group, int rank) {
  auto other = std::find_if(group.ranks.begin(), group.ranks.end(),
                            [&](int each) { return !topology.same_process(rank, each); });
  return other == group.ranks.end() ? -1 : *other;
}

void add_within(const Topology& topology, const Group& group, Classes& classes) {
  uint64_t between_processes = pairs_of(group.ranks.size());
  for (const auto& [unused, ranks] : group.processes) {
    if (ranks.size() < 2) continue;
    classes.add(ranks[0], ranks[1], pairs_of(ranks.size()));
    between_processes -= pairs_of(ranks.size());
  }
  if (between_processes == 0) return;
  int first = group.ranks.front();
  classes.add(first, in_another_process(topology, group, first), between_processes);
}

// Two groups may have ranks of one process, on two GPUs.
void add_between(const Topology& topology, const Group& a, const Group& b, Classes& classes) {
  uint64_t between_processes = a.ranks.size() * b.ranks.size();
  for (const auto& [pid, ranks] : a.processes) {
    auto same = b.processes.find(pid);
    if (same == b.processes.end() || !topology.same_process(ranks.front(), same->second.front())) continue;
    classes.add(ranks.front(), same->second.front(), ranks.size() * same->second.size());
    between_processes -= ranks.size() * same->second.size();
  }
  if (between_processes == 0) return;
  int first = a.ranks.front();
  int other = in_another_process(topology, b, first);
  // All of b may be in the first one's process; then some of a are not.
  if (other < 0) std::tie(first, other) = std::pair(in_another_process(topology, a, first), b.ranks.front());
  classes.add(first, other, between_processes);
}

// Ranks of a host that have alike links to other hosts, and the first of them.
struct Outward {
  int first = 0;
  uint64_t ranks = 0;
  Figure latency_ns;
  Figure bytes_per_s;
  int rdma_lanes = 0;
  auto key() const {
    return std::tuple(latency_ns.value, latency_ns.origin, bytes_per_s.value, bytes_per_s.origin, rdma_lanes);
  }
};

std::vector<Outward> outward(const Topology& topology, const TopologyHost& host) {
  std::vector<Outward> found;
  std::map<std::pair<int, int>, size_t> by_devices;  // where in `found`
  for (int rank : host.ranks) {
    int gpu = topology.ranks[rank].gpu;
    int rdma_lanes = topology.ranks[rank].rdma_lanes;
    auto [known, fresh] = by_devices.try_emplace({gpu, rdma_lanes}, 0);
    if (fresh) {
      Outward by_these{rank, 0, {}, {}, rdma_lanes};
      if (gpu >= 0 && nearest_nic(host.inventory, gpu) != nullptr) {
        GpuPath path = path_to_network(host.inventory, gpu, false);
        by_these.latency_ns = path.latency_ns;
        by_these.bytes_per_s = path.bytes_per_s;
      }
      auto alike = std::find_if(found.begin(), found.end(),
                                [&](const Outward& each) { return each.key() == by_these.key(); });
      known->second = static_cast<size_t>(alike - found.begin());
      if (alike == found.end()) found.push_back(by_these);
    }
    ++found[known->second].ranks;
  }
  return found;
}

// Ranks that have alike links to all ranks of other hosts.
struct Alike {
  std::vector<int> firsts;  // of each host, ascending
  std::vector<uint64_t> counts;
  uint64_t ranks = 0;
};

auto key_of(const Figure& figure) { return std::pair(figure.value, figure.origin); }

// By all that links between hosts depend on. A kernel that several hosts share, network namespaces of it, is its own.
std::vector<Alike> alike_outward(const Topology& topology) {
  std::map<std::string, int> hosts_of_kernel;
  for (const TopologyHost& host : topology.hosts) ++hosts_of_kernel[host.inventory.identity.boot_id];
  auto key_of_host = [&](const TopologyHost& host, const Outward& each) {
    const std::string& kernel = host.inventory.identity.boot_id;
    const Costs& costs = host.inventory.costs;
    return std::tuple(hosts_of_kernel[kernel] > 1 ? kernel : "", key_of(costs.tcp_ns), key_of(costs.tcp_bytes_per_s),
                      key_of(host.network_latency_ns), key_of(host.network_bytes_per_s),
                      std::string_view(host.inventory.fabric), key_of(host.inventory.fabric_bytes_per_s), each.key());
  };
  std::map<decltype(key_of_host(topology.hosts.front(), {})), Alike> by_key;
  for (const TopologyHost& host : topology.hosts) {
    for (const Outward& each : outward(topology, host)) {
      Alike& alike = by_key[key_of_host(host, each)];
      alike.firsts.push_back(each.first);
      alike.counts.push_back(each.ranks);
      alike.ranks += each.ranks;
    }
  }
  std::vector<Alike> all;
  for (auto& [unused, alike] : by_key) all.push_back(std::move(alike));
  return all;
}

// The ranks of `a` on the hosts that `b` has ranks on too are no pairs of this kind.
void add_between_hosts(const Topology& topology, const Alike& a, const Alike& b, Classes& classes) {
  auto host_of = [&](int rank) { return topology.ranks[rank].host; };
  uint64_t pairs = a.ranks * b.ranks;
  std::map<int, uint64_t> of_b;
  for (size_t i = 0; i < b.firsts.size(); ++i) of_b[host_of(b.firsts[i])] = b.counts[i];
  for (size_t i = 0; i < a.firsts.size(); ++i) {
    auto same = of_b.find(host_of(a.firsts[i]));
    if (same != of_b.end()) pairs -= a.counts[i] * same->second;
  }
  if (&a == &b) pairs /= 2;
  if (pairs == 0) return;
  // The first pair has the least rank of all on one side, unless all of the other side's are on its host.
  std::pair<int, int> first(INT_MAX, INT_MAX);
  auto consider = [&](const std::vector<int>& from, const std::vector<int>& to) {
    for (int one : from) {
      for (int other : to) {
        if (host_of(one) == host_of(other)) continue;
        first = std::min<std::pair<int, int>>(first, std::minmax(one, other));
        break;
      }
      if (std::min(first.first, first.second) <= one) break;
    }
  };
  std::vector<int> from = a.firsts, to = b.firsts;
  std::sort(from.begin(), from.end());
  std::sort(to.begin(), to.end());
  consider(from, to);
  consider(to, from);
  classes.add(first.first, first.second, pairs);
}

}  // namespace

std::vector<LinkClass> link_classes(const Topology& topology) {
  Classes classes(topology);
  for (const TopologyHost& host : topology.hosts) {
    std::vector<Group> groups = groups_of(topology, host);
    for (size_t i = 0; i < groups.size(); ++i) {
      add_within(topology, groups[i], classes);
      for (size_t j = i + 1; j < groups.size(); ++j) add_between(topology, groups[i], groups[j], classes);
    }
  }
  if (topology.hosts.size() < 2) return classes.sorted();
  std::vector<Alike> alike = alike_outward(topology);
  for (size_t i = 0; i < alike.size(); ++i) {
    for (size_t j = i; j < alike.size(); ++j) add_between_hosts(topology, alike[i], alike[j], classes);
  }
  return classes.sorted();
}

}  // namespace tutti
