// All links of a topology by kind and figures, without looking at every pair of ranks.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

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

// The ranks of one host that share their namespaces, by process; each list ascends.
struct Container {
  std::vector<int> ranks;
  std::map<int64_t, std::vector<int>> processes;
};

std::vector<Container> containers_of(const Topology& topology, const TopologyHost& host) {
  std::map<std::pair<uint64_t, uint64_t>, Container> by_namespace;
  for (int rank : host.ranks) {
    const TopologyRank& facts = topology.ranks[rank];
    Container& container = by_namespace[{facts.identity.pid_namespace, facts.identity.user_namespace}];
    container.ranks.push_back(rank);
    container.processes[facts.pid].push_back(rank);
  }
  std::vector<Container> containers;
  for (auto& [unused, container] : by_namespace) containers.push_back(std::move(container));
  return containers;
}

void add_within(const Topology& topology, const Container& container, Classes& classes) {
  uint64_t between_processes = pairs_of(container.ranks.size());
  for (const auto& [unused, ranks] : container.processes) {
    if (ranks.size() < 2) continue;
    classes.add(ranks[0], ranks[1], pairs_of(ranks.size()));
    between_processes -= pairs_of(ranks.size());
  }
  if (between_processes == 0) return;
  int first = container.ranks.front();
  auto other = std::find_if(container.ranks.begin(), container.ranks.end(),
                            [&](int rank) { return !topology.same_process(first, rank); });
  classes.add(first, *other, between_processes);
}

}  // namespace

std::vector<LinkClass> link_classes(const Topology& topology) {
  Classes classes(topology);
  for (size_t h = 0; h < topology.hosts.size(); ++h) {
    std::vector<Container> containers = containers_of(topology, topology.hosts[h]);
    for (size_t i = 0; i < containers.size(); ++i) {
      add_within(topology, containers[i], classes);
      for (size_t j = i + 1; j < containers.size(); ++j) {
        classes.add(containers[i].ranks.front(), containers[j].ranks.front(),
                    containers[i].ranks.size() * containers[j].ranks.size());
      }
    }
    const std::vector<int>& ranks = topology.hosts[h].ranks;
    for (size_t g = h + 1; g < topology.hosts.size(); ++g) {
      const std::vector<int>& others = topology.hosts[g].ranks;
      classes.add(ranks.front(), others.front(), ranks.size() * others.size());
    }
  }
  return classes.sorted();
}

}  // namespace tutti
