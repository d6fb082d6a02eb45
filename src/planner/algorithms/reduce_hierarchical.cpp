// Each rank of a group reduces a part of the vector from its group, and what the rank of its place in the group before
// has; the sums travel from group to group, to that of the root, which collects the parts. So of a group of g ranks
// each sends 1/g of the vector out of it.
#include "base/arithmetic.h"
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/groups.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

// Chunk c is that of the ranks with place c. The phases of three consecutive slices overlap.
RankPlan generate(const PlanShape& shape, int rank, int) {
  constexpr int kGather = 0, kReduce = 1, kCollect = 2;
  if (shape.nranks == 1) return alone(shape);
  Groups groups(shape, rank);
  Groups there(shape, shape.root);
  bool is_root = rank == shape.root, is_last = groups.own == there.own;
  bool is_first = groups.after(groups.count - 1) == there.own;
  int chunk = groups.place;
  std::vector<Step> steps;
  for (int k = 1; k < groups.size && is_root; ++k) steps.push_back(wait(groups.near(k), groups.next(k), kCollect));
  std::vector<Place> sources;
  if (groups.count > 1 && !is_first) {
    int before = groups.far(groups.after(groups.count - 1));
    steps.push_back(wait(before, kNoChunk, kReduce));
    sources.push_back(arrival(before));
  }
  for (int at = 0; at < groups.size; ++at) {
    int peer = groups.member(groups.own, at);
    if (peer != rank) steps.push_back(wait(peer, kNoChunk, kReduce));
    sources.push_back(peer == rank ? input(chunk) : arrival(peer));
  }
  Place result = is_root ? output(chunk) : sources.size() > 1 ? temp(0) : input(chunk);
  if (sources.size() > 1) steps.push_back(reduce(sources, result, is_last ? Finish::kYes : Finish::kNo, kReduce));
  if (!is_last) steps.push_back(put(groups.far(groups.after(1)), result, kNoChunk, kReduce));
  if (is_last && !is_root) steps.push_back(put(shape.root, result, chunk, kReduce));
  for (int k = 1; k < groups.size; ++k) {
    steps.push_back(put(groups.near(k), input(groups.next(k)), kNoChunk, kGather));
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  Groups there(shape, shape.root);
  uint64_t part = ceil_div(inputs.request.size_bytes(), there.size);
  Work work(inputs, shape);
  for (int rank = 0; rank < shape.nranks; ++rank) {
    Groups groups(shape, rank);
    bool is_last = groups.own == there.own, is_first = groups.after(groups.count - 1) == there.own;
    for (int k = 1; k < groups.size; ++k) work.send(rank, groups.near(k), part, Payload::kCopied);
    work.reduce_partial(rank, groups.size + (is_first ? 0 : 1), part);
    if (!is_last) work.send(rank, groups.far(groups.after(1)), part, Payload::kPartial);
    if (is_last && rank != shape.root) work.send(rank, shape.root, part, Payload::kStored);
  }
  return work.predict(there.count + 1, there.count + 1);
}

}  // namespace

const Algorithm kReduceHierarchical = {
    .name = "hierarchical",
    .collective = TUTTI_REDUCE,
    .summary = "each rank of a group reduces a part, which goes from group to group: least bytes out of each",
    .admit = admit_groups,
    .shape = shape_by_place,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
