// Each group reduce-scatters within itself, the smallest first, ranks of equal place in the largest all-reduce what
// they got, and each group gathers. So of a group of g ranks each sends 1/g of the vector out of it, whatever there is
// between groups.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/groups.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

RankPlan generate(const PlanShape& shape, int rank, int) {
  if (shape.nranks == 1) return alone(shape);
  Groups groups(shape, rank);
  std::vector<Step> steps;
  reduce_scatter_by_levels(groups, steps);
  all_gather_by_levels(groups, groups.top(), rank, steps);
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  Work work(inputs, shape);
  add_reduce_scatter(work, inputs.request, shape);
  add_all_gather(work, inputs.request, shape, Payload::kStored);
  return work.predict(0);
}

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  return shape_by_rank(topology, request, tuning, predict);
}

}  // namespace

const Algorithm kAllReduceHierarchical = {
    .name = "hierarchical",
    .collective = TUTTI_ALL_REDUCE,
    .summary = "reduce-scatter in each group, all-reduce between these, all-gather in each: two hops a level",
    .traits = {.rank_tree = RankTree::kPowersOfTwo},
    .admit = admit_peers,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
