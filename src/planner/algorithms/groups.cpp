#include "planner/algorithms/groups.h"

#include <algorithm>
#include <utility>

#include "planner/algorithms/steps.h"
#include "planner/shape.h"
#include "topology/levels.h"

namespace tutti {
namespace {

constexpr int kMostLinks = 127;
// Within a slice each phase waits for the one before; slices of several channels overlap.
constexpr int kChannels = 4;
constexpr uint64_t kLeastOverlapped = uint64_t{1} << 20;

std::vector<int> all_groups(const Topology& topology) {
  std::vector<int> groups;
  for (const Level& level : levels_of(topology).levels) groups.push_back(level.ranks);
  return groups;
}

int links_to_peers(const std::vector<int>& groups, int nranks) {
  int links = 0, within = 1;
  for (int ranks : groups) {
    links += ranks / within - 1;
    within = ranks;
  }
  return links + nranks / within - 1;
}

int links_in_group(const std::vector<int>& groups, int) { return groups.empty() ? 0 : groups.back(); }

using Links = int (*)(const std::vector<int>& groups, int nranks);

// All selections from the groups that there are, of few levels before those of many.
std::vector<std::vector<int>> selections(const std::vector<int>& groups) {
  std::vector<std::vector<int>> all = {{}};
  for (int ranks : groups) {
    for (size_t i = 0, before = all.size(); i < before; ++i) {
      all.push_back(all[i]);
      all.back().push_back(ranks);
    }
  }
  all.erase(all.begin());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return all;
}

std::string admit(const Topology& topology, Links links_of) {
  bool all_on_gpus = std::all_of(topology.ranks.begin(), topology.ranks.end(),
                                 [](const TopologyRank& rank) { return rank.gpu >= 0; });
  if (!all_on_gpus) return "it is for ranks that all sit on GPUs";
  Levels levels = levels_of(topology);
  if (levels.levels.empty() && !levels.uneven.empty()) {
    return fmt::format("{}s have different numbers of ranks, or ranks that are not consecutive",
                       name_of(levels.uneven.back()));
  }
  if (levels.levels.empty()) {
    return "it is for several hosts with several ranks each, or several GPUs with several ranks each";
  }
  int fewest = topology.nranks();
  for (const std::vector<int>& groups : selections(all_groups(topology))) {
    fewest = std::min(fewest, links_of(groups, topology.nranks()));
  }
  if (fewest <= kMostLinks) return "";
  return fmt::format("every rank would hold {} links; the most is {}", fewest, kMostLinks);
}

PlanShape shape_with(std::vector<int> groups, bool by_place, const Topology& topology, const Request& request,
                     const Tuning& tuning) {
  int channels = request.size_bytes() < kLeastOverlapped ? 1 : kChannels;
  int places = groups.empty() ? 1 : groups.back();
  int chunks = by_place ? places : topology.nranks();
  PlanShape shape = basic_shape("hierarchical", topology, request, tuning, chunks, channels);
  shape.groups = std::move(groups);
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

PlanShape fastest_shape(bool by_place, const Topology& topology, const Request& request, const Tuning& tuning,
                        Predict predict) {
  PlanShape fastest = shape_with({}, by_place, topology, request, tuning);
  uint64_t least_ns = UINT64_MAX;
  for (std::vector<int>& groups : selections(all_groups(topology))) {
    if ((by_place ? links_in_group : links_to_peers)(groups, topology.nranks()) > kMostLinks) continue;
    PlanShape shape = shape_with(std::move(groups), by_place, topology, request, tuning);
    uint64_t ns = predict_quicker(predict, {topology, request, tuning}, shape).ns;
    if (ns >= least_ns) continue;
    least_ns = ns;
    fastest = std::move(shape);
  }
  return fastest;
}

}  // namespace

Groups::Groups(const PlanShape& shape, int rank) : rank_(rank), strides_{1} {
  for (int ranks : shape.groups) {
    sizes_.push_back(ranks / strides_.back());
    strides_.push_back(ranks);
  }
  sizes_.push_back(shape.nranks / strides_.back());
}

std::string admit_peers(const Topology& topology, const Request&) { return admit(topology, links_to_peers); }
std::string admit_groups(const Topology& topology, const Request&) { return admit(topology, links_in_group); }

PlanShape shape_by_rank(const Topology& topology, const Request& request, const Tuning& tuning, Predict predict) {
  return fastest_shape(false, topology, request, tuning, predict);
}

PlanShape shape_by_place(const Topology& topology, const Request& request, const Tuning& tuning, Predict predict) {
  return fastest_shape(true, topology, request, tuning, predict);
}

// All peers at a level go through the chunks in the same order, and send what belongs to one before they wait for it,
// so that two slots per stream are enough.
std::vector<Place> LevelSums::exchange(int level, int chunk, Phase before, Phase then) {
  for (int k = 1; k < groups_.size(level); ++k) {
    Place partial = sum(level - 1, groups_.with(chunk, level, groups_.next(level, k)), before);
    before.steps.push_back(put(groups_.peer(level, k), partial, kNoChunk, before.lag));
  }
  Place own = sum(level - 1, chunk, then);
  std::vector<Place> sources;
  for (int at = 0; at < groups_.size(level); ++at) {
    int peer = groups_.peer_at(level, at);
    if (peer != groups_.rank()) then.steps.push_back(wait(peer, kNoChunk, then.lag));
    sources.push_back(peer == groups_.rank() ? own : arrival(peer));
  }
  return sources;
}

Place LevelSums::sum(int level, int chunk, Phase phase) {
  if (level < 0) return input(chunk);
  std::vector<Place> sources = exchange(level, chunk, phase, phase);
  Place partial = next_temp();
  phase.steps.push_back(reduce(std::move(sources), partial, Finish::kNo, phase.lag));
  return partial;
}

void reduce_scatter_by_levels(const Groups& groups, std::vector<Step>& steps) {
  LevelSums::Phase all{steps};
  std::vector<Place> sources = LevelSums(groups).exchange(groups.top(), groups.rank(), all, all);
  steps.push_back(reduce(std::move(sources), output(groups.rank()), Finish::kYes));
}

void add_reduce_scatter(Work& work, const Request& request, const PlanShape& shape) {
  uint64_t part = ceil_div(request.size_bytes(), shape.nranks);
  int top = Groups(shape, 0).top();
  for (int level = 0; level <= top; ++level) {
    for (int rank = 0; rank < shape.nranks; ++rank) {
      Groups groups(shape, rank);
      int times = groups.numbers_between(level, top);
      for (int k = 1; k < groups.size(level); ++k) {
        work.send(rank, groups.peer(level, k), part, level == 0 ? Payload::kCopied : Payload::kPartial, times);
      }
      work.reduce_partial(rank, groups.size(level), part, times);
    }
    work.end_phase(work.slices_of(part));
  }
}

void all_gather_by_levels(const Groups& groups, int level, int chunk, std::vector<Step>& steps, int lag, int root) {
  if (level < 0) return;
  for (int k = 1; k < groups.size(level); ++k) {
    int peer = groups.peer(level, k);
    if (peer != root) steps.push_back(put(peer, output(chunk), chunk, lag));
  }
  for (int k = 0; k < groups.size(level); ++k) {  // the own one first
    int theirs = groups.with(chunk, level, groups.next(level, k));
    if (k > 0 && groups.rank() != root) steps.push_back(wait(groups.peer(level, k), theirs, lag));
    all_gather_by_levels(groups, level - 1, theirs, steps, lag, root);
  }
}

void add_all_gather(Work& work, const Request& request, const PlanShape& shape, Payload payload) {
  uint64_t part = ceil_div(request.size_bytes(), shape.nranks);
  int top = Groups(shape, 0).top();
  for (int level = top; level >= 0; --level) {
    for (int rank = 0; rank < shape.nranks; ++rank) {
      Groups groups(shape, rank);
      int times = groups.numbers_between(level, top);
      for (int k = 1; k < groups.size(level); ++k) work.send(rank, groups.peer(level, k), part, payload, times);
    }
    work.end_phase(work.slices_of(part));
  }
}

}  // namespace tutti
