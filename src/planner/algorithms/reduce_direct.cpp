// Every rank sends its vector to the root, which reduces all of them: one hop.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology& topology, const Request&) { return admit_all_pairs(topology); }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("direct", topology, request, tuning);
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  shape.by_chunk = true;
  return shape;
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  if (rank != shape.root) return one_section({put(shape.root, input(0))});
  std::vector<Step> steps;
  for (int i = 1; i < n; ++i) steps.push_back(wait((rank + i) % n));
  steps.push_back(reduce(in_rank_order(n, rank, 0), output(0), Finish::kYes));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  for (int rank = 0; rank < shape.nranks; ++rank) {
    if (rank != shape.root) work.send(rank, shape.root, bytes, Payload::kCopied);
  }
  if (shape.nranks > 1) work.reduce(shape.root, shape.nranks, bytes);
  return work.predict(shape.nranks > 1 ? 1 : 0);
}

}  // namespace

const Algorithm kReduceDirect = {
    .name = "direct",
    .collective = TUTTI_REDUCE,
    .summary = "all send to the root, which reduces everything: one hop",
    .traits = {.rank_tree = RankTree::kAlways},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
