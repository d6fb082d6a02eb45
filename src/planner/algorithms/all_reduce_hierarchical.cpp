// Groups of ranks that are near each other, hosts: each reduce-scatters within itself, ranks of equal place in their
// groups all-reduce what they got, and each group gathers. So 1/group of the vector leaves a host by each of its ranks,
// whatever there is between hosts.
#include <algorithm>

#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

constexpr int kMostLinks = 127;
// Within a slice each of the four phases waits for the one before; slices of several channels overlap.
constexpr int kChannels = 4;
constexpr uint64_t kLeastOverlapped = uint64_t{1} << 20;

// Ranks of each host, which are consecutive and as many on all; 0 where they are not.
int ranks_per_host(const Topology& topology) {
  size_t count = topology.hosts.front().ranks.size();
  for (const TopologyHost& host : topology.hosts) {
    bool is_consecutive = host.ranks.back() - host.ranks.front() + 1 == static_cast<int>(host.ranks.size());
    if (host.ranks.size() != count || !is_consecutive || host.ranks.front() % static_cast<int>(count) != 0) return 0;
  }
  return static_cast<int>(count);
}

std::string admit(const Topology& topology, const Request&) {
  bool all_on_gpus = std::all_of(topology.ranks.begin(), topology.ranks.end(),
                                 [](const TopologyRank& rank) { return rank.gpu >= 0; });
  if (!all_on_gpus) return "it is for ranks that all sit on GPUs";
  int group = ranks_per_host(topology);
  int hosts = static_cast<int>(topology.hosts.size());
  if (group == 0) return "hosts have different numbers of ranks, or ranks that are not consecutive";
  if (group == 1 || hosts == 1) return "it is for several hosts with several ranks each";
  if (group + hosts - 2 <= kMostLinks) return "";
  return fmt::format("every rank would hold {} links; the most is {}", group + hosts - 2, kMostLinks);
}

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  int channels = request.size_bytes() < kLeastOverlapped ? 1 : kChannels;
  PlanShape shape = basic_shape("hierarchical", topology, request, tuning, topology.nranks(), channels);
  shape.group = ranks_per_host(topology);
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

// Chunk c ends at rank c. All ranks of a group go through the groups in the same order, and send what belongs to one
// before they wait for it, so that two slots per stream are enough.
RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  int size = shape.group > 0 ? shape.group : n;
  int groups = n / size, own = rank / size, place = rank % size;
  auto member = [&](int group, int at) { return group * size + at; };
  auto group_after = [&](int i) { return (own + i) % groups; };
  auto near = [&](int i) { return member(own, (place + i) % size); };

  std::vector<Step> steps;
  for (int i = 1; i <= groups; ++i) {  // the own group last
    int group = group_after(i);
    int chunk = member(group, place);
    for (int k = 1; k < size; ++k) steps.push_back(put(near(k), input(member(group, (place + k) % size))));
    std::vector<Place> sources;
    for (int at = 0; at < size; ++at) {
      int peer = member(own, at);
      if (peer != rank) steps.push_back(wait(peer));
      sources.push_back(peer == rank ? input(chunk) : arrival(peer));
    }
    if (groups == 1) {
      steps.push_back(reduce(std::move(sources), output(rank), Finish::kYes));
    } else {
      Place partial = temp(group);
      if (size > 1) steps.push_back(reduce(std::move(sources), partial, Finish::kNo));
      if (group != own) steps.push_back(put(chunk, size > 1 ? partial : input(chunk)));
    }
  }
  std::vector<Place> partials;
  for (int group = 0; group < groups && groups > 1; ++group) {
    int peer = member(group, place);
    if (group != own) steps.push_back(wait(peer));
    partials.push_back(group != own ? arrival(peer) : size > 1 ? temp(own) : input(rank));
  }
  if (groups > 1) steps.push_back(reduce(std::move(partials), output(rank), Finish::kYes));
  for (int i = 1; i < groups; ++i) steps.push_back(put(member(group_after(i), place), output(rank), rank));
  for (int i = 0; i < groups; ++i) {  // the own group first
    int group = group_after(i);
    int chunk = member(group, place);
    if (group != own) steps.push_back(wait(chunk, chunk));
    for (int k = 1; k < size; ++k) steps.push_back(put(near(k), output(chunk), chunk));
    for (int at = 0; at < size; ++at) {
      if (at != place) steps.push_back(wait(member(own, at), member(group, at)));
    }
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks, size = shape.group, groups = n / size;
  uint64_t part = ceil_div(inputs.request.size_bytes(), n);
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    int first = rank - rank % size;
    for (int peer = first; peer < first + size; ++peer) {
      if (peer == rank) continue;
      work.send(rank, peer, part, Payload::kCopied, groups);
      work.send(rank, peer, part, Payload::kStored, groups);
    }
    for (int peer = rank % size; peer < n; peer += size) {
      if (peer == rank) continue;
      work.send(rank, peer, part, Payload::kPartial);
      work.send(rank, peer, part, Payload::kStored);
    }
    work.reduce_partial(rank, size, part * groups);
    work.reduce_partial(rank, groups, part);
  }
  return work.predict(4 * work.slices_of(part));
}

}  // namespace

const Algorithm kAllReduceHierarchical = {
    .name = "hierarchical",
    .collective = TUTTI_ALL_REDUCE,
    .summary = "reduce-scatter in each host, all-reduce between these, all-gather in each: four hops",
    .traits = {.rank_tree = RankTree::kPowersOfTwo},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
