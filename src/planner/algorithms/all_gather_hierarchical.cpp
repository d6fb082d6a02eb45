// Every rank sends its block to its peers in other groups, from the largest to the smallest, and at each level passes
// on all that it has: each block comes into a group once.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/groups.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

RankPlan generate(const PlanShape& shape, int rank, int) {
  if (shape.nranks == 1) return alone(shape);
  std::vector<Step> steps = {copy(input(rank), output(rank))};
  Groups groups(shape, rank);
  all_gather_by_levels(groups, groups.top(), rank, steps);
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  Work work(inputs, shape);
  add_all_gather(work, inputs.request, shape, Payload::kDelivered);
  return work.predict(0);
}

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  return shape_by_rank(topology, request, tuning, predict);
}

}  // namespace

const Algorithm kAllGatherHierarchical = {
    .name = "hierarchical",
    .collective = TUTTI_ALL_GATHER,
    .summary = "each block comes into every other group once, and is passed on there: one hop a level",
    .traits = {.carries_for_others = true},
    .admit = admit_peers,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
