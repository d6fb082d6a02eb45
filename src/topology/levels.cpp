#include "topology/levels.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "topology/units.h"

namespace tutti {
namespace {

// The host's fabric as a number, in the order of their first hosts. Hosts that do not tell theirs are in one.
std::vector<int> fabrics_of(const Topology& topology) {
  std::map<std::string_view, int> numbers;
  std::vector<int> fabrics;
  for (const TopologyHost& host : topology.hosts) {
    fabrics.push_back(numbers.try_emplace(host.inventory.fabric, static_cast<int>(numbers.size())).first->second);
  }
  return fabrics;
}

// Of each rank what it has in common with the others of its group.
std::vector<std::pair<int, int>> groups_of(const Topology& topology, LevelKind kind) {
  std::vector<int> fabrics = fabrics_of(topology);
  std::vector<std::pair<int, int>> groups;
  for (const TopologyRank& rank : topology.ranks) {
    switch (kind) {
      case LevelKind::kGpu: groups.emplace_back(rank.host, rank.gpu); break;
      case LevelKind::kHost: groups.emplace_back(rank.host, 0); break;
      case LevelKind::kFabric: groups.emplace_back(fabrics[rank.host], 0); break;
    }
  }
  return groups;
}

// Ranks of each group of the kind; 0 where they are not consecutive and as many in all.
int ranks_per_group(const Topology& topology, LevelKind kind) {
  auto groups = groups_of(topology, kind);
  size_t nranks = groups.size(), size = 1;
  while (size < nranks && groups[size] == groups[0]) ++size;
  if (nranks % size != 0) return 0;
  std::set<std::pair<int, int>> seen;
  for (size_t rank = 0; rank < nranks; ++rank) {
    if (groups[rank] != groups[rank - rank % size]) return 0;
    seen.insert(groups[rank]);
  }
  return seen.size() == nranks / size ? static_cast<int>(size) : 0;
}

}  // namespace

std::string_view name_of(LevelKind kind) {
  switch (kind) {
    case LevelKind::kGpu: return "GPU";
    case LevelKind::kHost: return "host";
    case LevelKind::kFabric: return "fabric";
  }
  return "?";
}

Levels levels_of(const Topology& topology) {
  Levels found;
  bool on_gpus = std::all_of(topology.ranks.begin(), topology.ranks.end(),
                             [](const TopologyRank& rank) { return rank.gpu >= 0; });
  for (LevelKind kind : {LevelKind::kGpu, LevelKind::kHost, LevelKind::kFabric}) {
    if (kind == LevelKind::kGpu && !on_gpus) continue;
    int ranks = ranks_per_group(topology, kind);
    if (ranks == 0) found.uneven.push_back(kind);
    if (ranks <= 1 || ranks == topology.nranks()) continue;
    if (!found.levels.empty() && found.levels.back().ranks == ranks) found.levels.pop_back();
    found.levels.push_back({kind, ranks});
  }
  return found;
}

std::vector<int> near_order(const Topology& topology) {
  std::vector<int> fabrics = fabrics_of(topology);
  auto place = [&](int rank) {
    const TopologyRank& its = topology.ranks[rank];
    return std::tuple(fabrics[its.host], its.host, its.gpu, rank);
  };
  std::vector<int> order(topology.ranks.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return place(a) < place(b); });
  return std::is_sorted(order.begin(), order.end()) ? std::vector<int>() : order;
}

std::string levels_text(const Topology& topology, const std::vector<int>& groups) {
  std::string text;
  std::string_view what = "rank";
  int within = 1;
  for (const Level& level : levels_of(topology).levels) {
    if (std::find(groups.begin(), groups.end(), level.ranks) == groups.end()) continue;
    text += fmt::format("{} on each {}, ", count_text(level.ranks / within, what), name_of(level.kind));
    what = name_of(level.kind);
    within = level.ranks;
  }
  return text + count_text(topology.nranks() / within, what);
}

}  // namespace tutti
