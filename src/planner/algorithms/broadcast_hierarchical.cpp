// The root gives each rank of its group, the largest of those that it is in, a part of the vector; that travels through
// the ranks of that place in all such groups, one after another, and each of these passes it on to its own group, level
// by level. So of a group of g ranks each sends 1/g of the vector out of it, and as much comes in.
#include "base/arithmetic.h"
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/groups.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

// Chunk c is that of the ranks with place c. The phases of three consecutive slices overlap: the root's parts, what
// travels from group to group and to the peers at the largest level within, and what is passed on there.
RankPlan generate(const PlanShape& shape, int rank, int) {
  constexpr int kScatter = 0, kTravel = 1, kCollect = 2;
  if (shape.nranks == 1) return alone(shape);
  Groups groups(shape, rank);
  Groups there(shape, shape.root);
  int top = groups.top(), inner = top - 1, size = groups.ranks_below_top();
  bool is_root = rank == shape.root, is_near_root = groups.own(top) == there.own(top);
  int chunk = groups.place_below_top();
  std::vector<Step> steps;
  // What peers at the largest level within the group have, and then have to pass on.
  auto collect = [&](int lag) {
    for (int k = 0; inner >= 0 && k < groups.size(inner); ++k) {
      int theirs = groups.with(chunk, inner, groups.next(inner, k));
      if (k > 0 && !is_root) steps.push_back(wait(groups.peer(inner, k), theirs, lag));
      all_gather_by_levels(groups, inner - 1, theirs, steps, lag, shape.root);
    }
  };
  if (is_root) {
    Step own = copy(input(chunk), output(chunk));
    own.lag = kTravel;
    steps.push_back(own);
  } else {
    collect(kCollect);
    int source = is_near_root ? shape.root : groups.peer(top, groups.size(top) - 1);
    steps.push_back(wait(source, chunk, kTravel));
  }
  if (groups.next(top, 1) != there.own(top)) steps.push_back(put(groups.peer(top, 1), output(chunk), chunk, kTravel));
  for (int k = 1; inner >= 0 && k < groups.size(inner); ++k) {
    int peer = groups.peer(inner, k);
    if (peer != shape.root) steps.push_back(put(peer, output(chunk), chunk, kTravel));
  }
  // The root has all, and sends its part with that of others before their next parts.
  if (is_root) collect(kTravel);
  for (int k = 1; k < size && is_root; ++k) {
    int place = (chunk + k) % size;
    steps.push_back(copy(input(place), output(place)));
    steps.push_back(put(rank - chunk + place, output(place), place, kScatter));
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  Groups there(shape, shape.root);
  int top = there.top(), size = there.ranks_below_top();
  uint64_t part = ceil_div(inputs.request.size_bytes(), size);
  Work work(inputs, shape);
  for (int k = 1; k < size; ++k) {
    int place = (there.place_below_top() + k) % size;
    work.send(shape.root, shape.root - there.place_below_top() + place, part, Payload::kDelivered);
  }
  for (int rank = 0; rank < shape.nranks; ++rank) {
    Groups groups(shape, rank);
    if (groups.next(top, 1) != there.own(top)) work.send(rank, groups.peer(top, 1), part, Payload::kDelivered);
    for (int level = 0; level < top; ++level) {
      for (int k = 1; k < groups.size(level); ++k) {
        int peer = groups.peer(level, k);
        if (peer == shape.root) continue;
        work.send(rank, peer, part, Payload::kDelivered, groups.numbers_between(level, top - 1));
      }
    }
  }
  // What is passed on at the smaller levels does not overlap with the next slice.
  uint64_t within = top > 1 ? static_cast<uint64_t>(top - 1) * work.slices_of(part) : 0;
  uint64_t pipelined = there.size(top) + (top > 0 ? 1 : 0);
  return work.predict(pipelined + within, pipelined);
}

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  return shape_by_place(topology, request, tuning, predict);
}

}  // namespace

const Algorithm kBroadcastHierarchical = {
    .name = "hierarchical",
    .collective = TUTTI_BROADCAST,
    .summary = "each rank of a group takes a part from group to group, and all gather these: least bytes out of each",
    .admit = admit_groups,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
