// Chain: each rank passes the vector on to the next, slice by slice; every link carries it once, whatever the number of
// ranks.
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
  int next = ring.next();
  std::vector<Step> steps;
  steps.push_back(rank == shape.root ? copy(input(0), output(0)) : wait(ring.previous(), 0));
  if (next != shape.root) steps.push_back(put(next, output(0), 0));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  Ring ring(shape, shape.root);
  for (int i = 0; i + 1 < n; ++i) {
    work.send(ring.along(i), ring.along(i + 1), bytes, Payload::kDelivered);
  }
  return work.predict(n - 1, n - 1);
}

}  // namespace

const Algorithm kBroadcastChain = {
    .name = "chain",
    .collective = TUTTI_BROADCAST,
    .summary = "each rank passes the vector on to the next: least bytes per link, n-1 hops",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
