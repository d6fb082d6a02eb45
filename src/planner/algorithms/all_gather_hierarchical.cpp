// Every rank sends its block to the ranks of its place in other groups, and passes on to its own group what it gets:
// each block comes into a group once.
#include "base/arithmetic.h"
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/groups.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

RankPlan generate(const PlanShape& shape, int rank, int) {
  if (shape.nranks == 1) return alone(shape);
  std::vector<Step> steps = {copy(input(rank), output(rank))};
  all_gather_by_groups(Groups(shape, rank), rank, steps);
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  Work work(inputs, shape);
  add_all_gather(work, inputs.request, shape, Payload::kDelivered);
  return work.predict(2 * work.slices_of(ceil_div(inputs.request.size_bytes(), shape.nranks)));
}

}  // namespace

const Algorithm kAllGatherHierarchical = {
    .name = "hierarchical",
    .collective = TUTTI_ALL_GATHER,
    .summary = "each block comes into every other group once, and is passed on there: two hops",
    .traits = {.carries_for_others = true},
    .admit = admit_linked_groups,
    .shape = shape_by_rank,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
