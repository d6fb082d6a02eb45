// Each rank of a group, the largest of those that it is in, reduces a part of the vector from its group, level by
// level, and what the rank of its place in the group before has; the sums travel from group to group, to that of the
// root, which collects the parts. So of a group of g ranks each sends 1/g of the vector out of it.
#include "base/arithmetic.h"
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/groups.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

// Chunk c is that of the ranks with place c. The phases of three consecutive slices overlap: what goes to the peers at
// the largest level within the group, sums that travel, and what the root collects.
RankPlan generate(const PlanShape& shape, int rank, int) {
  constexpr int kGather = 0, kReduce = 1, kCollect = 2;
  if (shape.nranks == 1) return alone(shape);
  Groups groups(shape, rank);
  Groups there(shape, shape.root);
  int top = groups.top(), size = groups.ranks_below_top(), last = groups.size(top) - 1;
  bool is_root = rank == shape.root, is_last = groups.own(top) == there.own(top);
  bool is_first = groups.next(top, last) == there.own(top);
  int chunk = groups.place_below_top();
  std::vector<Step> steps, gathering;
  for (int k = 1; k < size && is_root; ++k) {
    int place = (chunk + k) % size;
    steps.push_back(wait(rank - chunk + place, place, kCollect));
  }
  LevelSums sums(groups);
  std::vector<Place> sources;
  if (top == 0) {
    sources.push_back(input(chunk));
  } else {
    sources = sums.exchange(top - 1, chunk, {gathering, kGather}, {steps, kReduce});
  }
  if (!is_first) {
    int before = groups.peer(top, last);
    steps.push_back(wait(before, kNoChunk, kReduce));
    sources.insert(sources.begin(), arrival(before));
  }
  Place result = is_root ? output(chunk) : sources.size() > 1 ? sums.next_temp() : input(chunk);
  if (sources.size() > 1) steps.push_back(reduce(sources, result, is_last ? Finish::kYes : Finish::kNo, kReduce));
  if (!is_last) steps.push_back(put(groups.peer(top, 1), result, kNoChunk, kReduce));
  // In the round after this the root waits for parts first, and then for what its peers at the largest level send it.
  // For what it gathers together with its peers at smaller levels it waits in this round.
  bool parts_come_last = top > 0 && groups.own(top - 1) == there.own(top - 1);
  if (parts_come_last) steps.insert(steps.end(), gathering.begin(), gathering.end());
  if (is_last && !is_root) steps.push_back(put(shape.root, result, chunk, kReduce));
  if (!parts_come_last) steps.insert(steps.end(), gathering.begin(), gathering.end());
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  Groups there(shape, shape.root);
  int top = there.top();
  uint64_t part = ceil_div(inputs.request.size_bytes(), there.ranks_below_top());
  Work work(inputs, shape);
  for (int rank = 0; rank < shape.nranks; ++rank) {
    Groups groups(shape, rank);
    bool is_last = groups.own(top) == there.own(top);
    bool is_first = groups.next(top, groups.size(top) - 1) == there.own(top);
    for (int level = 0; level < top; ++level) {
      int times = groups.numbers_between(level, top - 1);
      for (int k = 1; k < groups.size(level); ++k) {
        work.send(rank, groups.peer(level, k), part, level == 0 ? Payload::kCopied : Payload::kPartial, times);
      }
      bool also_travelling = level == top - 1 && !is_first;
      work.reduce_partial(rank, groups.size(level) + (also_travelling ? 1 : 0), part, times);
    }
    if (!is_last) work.send(rank, groups.peer(top, 1), part, Payload::kPartial);
    if (is_last && rank != shape.root) work.send(rank, shape.root, part, Payload::kStored);
  }
  // What is combined at the smaller levels does not overlap with the next slice.
  uint64_t within = top > 1 ? static_cast<uint64_t>(top - 1) * work.slices_of(part) : 0;
  uint64_t pipelined = there.size(top) + (top > 0 ? 1 : 0);
  return work.predict(pipelined + within, pipelined);
}

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  return shape_by_place(topology, request, tuning, predict);
}

}  // namespace

const Algorithm kReduceHierarchical = {
    .name = "hierarchical",
    .collective = TUTTI_REDUCE,
    .summary = "each rank of a group reduces a part, which goes from group to group: least bytes out of each",
    .admit = admit_groups,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
