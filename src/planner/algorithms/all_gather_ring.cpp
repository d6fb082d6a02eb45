// Ring: in every hop each rank passes on to its neighbour what it received in the hop before; every link carries the
// least bytes. Odd channels run the other way round.
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
  PlanShape shape = basic_shape("ring", topology, request, tuning, topology.nranks());
  shape.order = near_order(topology);
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

RankPlan generate(const PlanShape& shape, int rank, int channel) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  Ring ring(shape, rank, channel);
  int next = ring.next(), previous = ring.previous();
  std::vector<Step> steps = {copy(input(rank), output(rank)), put(next, output(rank), rank)};
  for (int hop = 1; hop < n; ++hop) {
    int chunk = ring.back(hop);
    steps.push_back(wait(previous, chunk));
    if (hop + 1 < n) steps.push_back(put(next, output(chunk), chunk));
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  uint64_t part = ceil_div(bytes, n);
  Work work(inputs, shape);
  Ring ring(shape, 0);
  for (int i = 0; i < n && n > 1; ++i) work.send(ring.along(i), ring.along(i + 1), part, Payload::kDelivered, n - 1);
  // A rank works on one slice at a time, so every hop of every slice is on the way.
  return work.predict((n - 1) * work.slices_of(part));
}

}  // namespace

const Algorithm kAllGatherRing = {
    .name = "ring",
    .collective = TUTTI_ALL_GATHER,
    .summary = "blocks travel around a ring: least bytes per link, n-1 hops",
    .traits = {.carries_for_others = true},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
