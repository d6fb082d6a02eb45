// Ring: the partial sum of a block travels around and gathers each rank's contribution until it reaches its owner;
// every link carries the least bytes. Odd channels run the other way round.
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

// Block b starts at the rank after b.
RankPlan generate(const PlanShape& shape, int rank, int channel) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  Ring ring(shape, rank, channel);
  int next = ring.next(), previous = ring.previous();
  std::vector<Step> steps = {put(next, input(previous))};
  for (int hop = 2; hop < n; ++hop) {
    int chunk = ring.back(hop);
    steps.push_back(wait(previous));
    steps.push_back(reduce({arrival(previous), input(chunk)}, temp(hop - 2), Finish::kNo));
    steps.push_back(put(next, temp(hop - 2)));
  }
  steps.push_back(wait(previous));
  steps.push_back(reduce({arrival(previous), input(rank)}, output(rank), Finish::kYes));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  uint64_t part = ceil_div(bytes, n);
  Work work(inputs, shape);
  Ring ring(shape, 0);
  for (int i = 0; i < n && n > 1; ++i) {
    int rank = ring.along(i), next = ring.along(i + 1);
    work.send(rank, next, part, Payload::kCopied);
    work.send(rank, next, part, Payload::kPartial, n - 2);
    work.reduce_partial(rank, 2, part, n - 1);
  }
  // A rank works on one slice at a time, so every hop of every slice is on the way.
  return work.predict((n - 1) * work.slices_of(part));
}

}  // namespace

const Algorithm kReduceScatterRing = {
    .name = "ring",
    .collective = TUTTI_REDUCE_SCATTER,
    .summary = "partial sums travel around a ring: least bytes per link, n-1 hops",
    .traits = {.carries_for_others = true},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
