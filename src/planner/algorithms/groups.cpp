#include "planner/algorithms/groups.h"

#include <algorithm>
#include <set>
#include <utility>

#include "planner/algorithms/steps.h"
#include "planner/shape.h"

namespace tutti {
namespace {

constexpr int kMostLinks = 127;
// Within a slice each phase waits for the one before; slices of several channels overlap.
constexpr int kChannels = 4;
constexpr uint64_t kLeastOverlapped = uint64_t{1} << 20;

std::string too_many_links(int links) {
  if (links <= kMostLinks) return "";
  return fmt::format("every rank would hold {} links; the most is {}", links, kMostLinks);
}

PlanShape shape_with(int chunks, const Topology& topology, const Request& request, const Tuning& tuning) {
  int channels = request.size_bytes() < kLeastOverlapped ? 1 : kChannels;
  PlanShape shape = basic_shape("hierarchical", topology, request, tuning, chunks, channels);
  shape.group = ranks_per_group(topology);
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

}  // namespace

int ranks_per_group(const Topology& topology) {
  bool by_host = topology.hosts.size() > 1;
  auto group_of = [&](size_t rank) {
    const TopologyRank& its = topology.ranks[rank];
    return by_host ? its.host : its.gpu;
  };
  size_t nranks = topology.ranks.size(), size = 1;
  while (size < nranks && group_of(size) == group_of(0)) ++size;
  if (nranks % size != 0) return 0;
  std::set<int> seen;
  for (size_t rank = 0; rank < nranks; ++rank) {
    if (group_of(rank) != group_of(rank - rank % size)) return 0;
    seen.insert(group_of(rank));
  }
  return seen.size() == nranks / size ? static_cast<int>(size) : 0;
}

std::string admit_groups(const Topology& topology, const Request&) {
  bool all_on_gpus = std::all_of(topology.ranks.begin(), topology.ranks.end(),
                                 [](const TopologyRank& rank) { return rank.gpu >= 0; });
  if (!all_on_gpus) return "it is for ranks that all sit on GPUs";
  int size = ranks_per_group(topology);
  if (size == 0) {
    return fmt::format("{} have different numbers of ranks, or ranks that are not consecutive",
                       topology.hosts.size() > 1 ? "hosts" : "GPUs");
  }
  if (size == 1 || size == topology.nranks()) {
    return "it is for several hosts with several ranks each, or several GPUs with several ranks each";
  }
  return too_many_links(size);
}

std::string admit_linked_groups(const Topology& topology, const Request& request) {
  std::string why_not = admit_groups(topology, request);
  if (!why_not.empty()) return why_not;
  int size = ranks_per_group(topology);
  return too_many_links(size + topology.nranks() / size - 2);
}

PlanShape shape_by_rank(const Topology& topology, const Request& request, const Tuning& tuning) {
  return shape_with(topology.nranks(), topology, request, tuning);
}

PlanShape shape_by_place(const Topology& topology, const Request& request, const Tuning& tuning) {
  int size = ranks_per_group(topology);
  return shape_with(size > 0 ? size : topology.nranks(), topology, request, tuning);
}

// All ranks of a group go through the groups in the same order, and send what belongs to one before they wait for it,
// so that two slots per stream are enough.
void reduce_scatter_by_groups(const Groups& groups, int rank, std::vector<Step>& steps) {
  for (int i = 1; i <= groups.count; ++i) {  // the own group last
    int group = groups.after(i);
    int chunk = groups.member(group, groups.place);
    for (int k = 1; k < groups.size; ++k) {
      steps.push_back(put(groups.near(k), input(groups.member(group, groups.next(k)))));
    }
    std::vector<Place> sources;
    for (int at = 0; at < groups.size; ++at) {
      int peer = groups.member(groups.own, at);
      if (peer != rank) steps.push_back(wait(peer));
      sources.push_back(peer == rank ? input(chunk) : arrival(peer));
    }
    if (groups.count == 1) {
      steps.push_back(reduce(std::move(sources), output(rank), Finish::kYes));
      return;
    }
    Place partial = groups.size > 1 ? temp(group) : input(chunk);
    if (groups.size > 1) steps.push_back(reduce(std::move(sources), partial, Finish::kNo));
    if (group != groups.own) steps.push_back(put(chunk, partial));
  }
  std::vector<Place> partials;
  for (int group = 0; group < groups.count; ++group) {
    int peer = groups.member(group, groups.place);
    if (peer != rank) steps.push_back(wait(peer));
    partials.push_back(peer != rank ? arrival(peer) : groups.size > 1 ? temp(group) : input(rank));
  }
  steps.push_back(reduce(std::move(partials), output(rank), Finish::kYes));
}

void add_reduce_scatter(Work& work, const Request& request, const PlanShape& shape) {
  uint64_t part = ceil_div(request.size_bytes(), shape.nranks);
  for (int rank = 0; rank < shape.nranks; ++rank) {
    Groups groups(shape, rank);
    for (int k = 1; k < groups.size; ++k) work.send(rank, groups.near(k), part, Payload::kCopied, groups.count);
    for (int i = 1; i < groups.count; ++i) work.send(rank, groups.far(groups.after(i)), part, Payload::kPartial);
    work.reduce_partial(rank, groups.size, part * groups.count);
    work.reduce_partial(rank, groups.count, part);
  }
}

void all_gather_by_groups(const Groups& groups, int rank, std::vector<Step>& steps) {
  for (int i = 1; i < groups.count; ++i) steps.push_back(put(groups.far(groups.after(i)), output(rank), rank));
  for (int i = 0; i < groups.count; ++i) {  // the own group first
    int group = groups.after(i);
    int chunk = groups.far(group);
    if (chunk != rank) steps.push_back(wait(chunk, chunk));
    for (int k = 1; k < groups.size; ++k) steps.push_back(put(groups.near(k), output(chunk), chunk));
    for (int at = 0; at < groups.size; ++at) {
      if (at != groups.place) steps.push_back(wait(groups.member(groups.own, at), groups.member(group, at)));
    }
  }
}

void add_all_gather(Work& work, const Request& request, const PlanShape& shape, Payload payload) {
  uint64_t part = ceil_div(request.size_bytes(), shape.nranks);
  for (int rank = 0; rank < shape.nranks; ++rank) {
    Groups groups(shape, rank);
    for (int k = 1; k < groups.size; ++k) work.send(rank, groups.near(k), part, payload, groups.count);
    for (int i = 1; i < groups.count; ++i) work.send(rank, groups.far(groups.after(i)), part, payload);
  }
}

}  // namespace tutti
