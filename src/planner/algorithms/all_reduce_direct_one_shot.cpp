// Every rank sends its whole input to every other and reduces all of them itself: one hop, n - 1 times the traffic.
#include "planner/algorithms/algorithms.h"
#include "planner/cost.h"
#include "planner/shape.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

std::string admit(const Topology& topology, const Request&) { return admit_all_pairs(topology); }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("direct_one_shot", topology, request, tuning);
  // In place a rank overwrites its input while others may still read it.
  shape.by_reference = Permission::kUnlessInPlace;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  std::vector<Step> steps;
  for (int i = 1; i < n; ++i) steps.push_back(put((rank + i) % n, input(0)));
  for (int i = 1; i < n; ++i) steps.push_back(wait((rank + n - i) % n));
  steps.push_back(reduce(in_rank_order(n, rank, 0), output(0), Finish::kYes));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    work.send_to_others(rank, bytes, Payload::kCopied);
    if (n > 1) work.reduce_all(rank, bytes);
  }
  return work.predict(n > 1 ? 1 : 0);
}

}  // namespace

const Algorithm kAllReduceDirectOneShot = {
    .name = "direct_one_shot",
    .collective = TUTTI_ALL_REDUCE,
    .summary = "all inputs to all ranks, each reduces everything: one hop",
    .traits = {.rank_tree = RankTree::kAlways},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
