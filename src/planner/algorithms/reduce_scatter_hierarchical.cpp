// Each group reduce-scatters within itself for all groups, the smallest first, and ranks of equal place in their groups
// combine what they got: of each block, one partial result of each other group comes to where it belongs.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/groups.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

RankPlan generate(const PlanShape& shape, int rank, int) {
  if (shape.nranks == 1) return alone(shape);
  std::vector<Step> steps;
  reduce_scatter_by_levels(Groups(shape, rank), steps);
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  Work work(inputs, shape);
  add_reduce_scatter(work, inputs.request, shape);
  return work.predict(0);
}

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  return shape_by_rank(topology, request, tuning, predict);
}

}  // namespace

const Algorithm kReduceScatterHierarchical = {
    .name = "hierarchical",
    .collective = TUTTI_REDUCE_SCATTER,
    .summary = "each group reduces its part of every block, the owner those of all groups: one hop a level",
    .traits = {.rank_tree = RankTree::kPowersOfTwo, .carries_for_others = true},
    .admit = admit_peers,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
