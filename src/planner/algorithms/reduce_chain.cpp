// Chain: each rank adds its vector to what comes from the one before and passes it on, slice by slice, to the root;
// every link carries the vector once, whatever the number of ranks.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/ring.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"
#include "topology/levels.h"

namespace tutti {
namespace {

std::string admit(const Topology&, const Request&) { return ""; }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = pipelined_shape("chain", topology, request, tuning);
  shape.order = near_order(topology);
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  Ring ring(shape, rank);
  int previous = ring.next(), next = ring.previous();  // sums go to the root against the order
  if (previous == shape.root) return one_section({put(next, input(0))});
  std::vector<Step> steps = {wait(previous)};
  if (rank == shape.root) {
    steps.push_back(reduce({input(0), arrival(previous)}, output(0), Finish::kYes));
  } else {
    steps.push_back(reduce({input(0), arrival(previous)}, temp(0), Finish::kNo));
    steps.push_back(put(next, temp(0)));
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  Ring ring(shape, shape.root);
  for (int i = 1; i < n; ++i) {
    int rank = ring.along(i), next = ring.along(i - 1);
    work.send(rank, next, bytes, i + 1 == n ? Payload::kCopied : Payload::kPartial);
    work.reduce_partial(next, 2, bytes);
  }
  return work.predict(n - 1, n - 1);
}

}  // namespace

const Algorithm kReduceChain = {
    .name = "chain",
    .collective = TUTTI_REDUCE,
    .summary = "each rank adds its vector and passes the sum on: least bytes per link, n-1 hops",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
