// Ring: reduce-scatter, then all-gather, each in n - 1 hops to the neighbour; every link carries the least bytes.
// Source: P. Patarasu, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69 (2009).
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/ring.h"
#include "planner/cost.h"
#include "planner/shape.h"
#include "topology/levels.h"
#include "planner/algorithms/steps.h"

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

// Odd channels run the other way round, which uses both directions of every link. Chunk c starts at the rank after c
// and ends at rank c; `hops` back along the ring is the chunk that arrives `hops` steps later.
RankPlan generate(const PlanShape& shape, int rank, int channel) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  Ring ring(shape, rank, channel);
  int next = ring.next(), previous = ring.previous();

  std::vector<Step> steps;
  steps.reserve(5 * n);
  steps.push_back(put(next, input(ring.back(1))));
  for (int hop = 2; hop < n; ++hop) {
    int chunk = ring.back(hop);
    steps.push_back(wait(previous));
    steps.push_back(reduce({arrival(previous), input(chunk)}, temp(hop - 2), Finish::kNo));
    steps.push_back(put(next, temp(hop - 2)));
  }
  steps.push_back(wait(previous));
  steps.push_back(reduce({arrival(previous), input(rank)}, output(rank), Finish::kYes));
  steps.push_back(put(next, output(rank), rank));
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
  for (int i = 0; i < n && n > 1; ++i) {
    int rank = ring.along(i), next = ring.along(i + 1);
    work.send(rank, next, part, Payload::kCopied);
    work.send(rank, next, part, Payload::kPartial, n - 2);
    work.send(rank, next, part, Payload::kStored, n - 1);
    work.reduce_partial(rank, 2, part, n - 1);
  }
  // A rank works on one slice at a time, so every hop of every slice is on the way.
  return work.predict(2 * (n - 1) * work.slices_of(part));
}

}  // namespace

const Algorithm kAllReduceRing = {
    .name = "ring",
    .collective = TUTTI_ALL_REDUCE,
    .summary = "reduce-scatter and all-gather around a ring: least bytes per link, 2(n-1) hops",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
