// The root gives each rank of its group a part of the vector; that travels through the ranks of that place in all
// groups, one group after another, and each of these passes it on to its own group. So of a group of g ranks each sends
// 1/g of the vector out of it, and as much comes in.
#include "base/arithmetic.h"
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/groups.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

// Chunk c is that of the ranks with place c. The phases of three consecutive slices overlap: the root's parts, what
// travels from group to group, and what the others of the group pass on.
RankPlan generate(const PlanShape& shape, int rank, int) {
  constexpr int kScatter = 0, kTravel = 1, kCollect = 2;
  if (shape.nranks == 1) return alone(shape);
  Groups groups(shape, rank);
  Groups there(shape, shape.root);
  bool is_root = rank == shape.root, is_near_root = groups.own == there.own;
  int chunk = groups.place;
  std::vector<Step> steps;
  for (int k = 1; k < groups.size && !is_root; ++k) {
    // The root's own part is sent with the others'.
    steps.push_back(wait(groups.near(k), groups.next(k), kCollect));
  }
  if (!is_root) {
    int source = is_near_root ? shape.root : groups.far(groups.after(groups.count - 1));
    steps.push_back(wait(source, chunk, kTravel));
  } else {
    Step own = copy(input(chunk), output(chunk));
    own.lag = kTravel;
    steps.push_back(own);
  }
  int next = groups.after(1);
  if (next != there.own) steps.push_back(put(groups.far(next), output(chunk), chunk, kTravel));
  for (int k = 1; k < groups.size; ++k) {
    if (groups.near(k) != shape.root) steps.push_back(put(groups.near(k), output(chunk), chunk, kTravel));
  }
  for (int k = 1; k < groups.size && is_root; ++k) {
    steps.push_back(copy(input(groups.next(k)), output(groups.next(k))));
    steps.push_back(put(groups.near(k), output(groups.next(k)), groups.next(k), kScatter));
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  Groups there(shape, shape.root);
  uint64_t part = ceil_div(inputs.request.size_bytes(), there.size);
  Work work(inputs, shape);
  for (int k = 1; k < there.size; ++k) work.send(shape.root, there.near(k), part, Payload::kDelivered);
  for (int rank = 0; rank < shape.nranks; ++rank) {
    Groups groups(shape, rank);
    int next = groups.after(1);
    if (next != there.own) work.send(rank, groups.far(next), part, Payload::kDelivered);
    for (int k = 1; k < groups.size; ++k) {
      if (groups.near(k) != shape.root) work.send(rank, groups.near(k), part, Payload::kDelivered);
    }
  }
  return work.predict(there.count + 1, there.count + 1);
}

}  // namespace

const Algorithm kBroadcastHierarchical = {
    .name = "hierarchical",
    .collective = TUTTI_BROADCAST,
    .summary = "each rank of a group takes a part from group to group, and all gather these: least bytes out of each",
    .admit = admit_groups,
    .shape = shape_by_place,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
