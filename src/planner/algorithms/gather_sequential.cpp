// The root takes the blocks of one rank after the other: it reads and writes at one place at a time, and few slots are
// in use.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology&, const Request&) { return ""; }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("sequential", topology, request, tuning, topology.nranks());
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  if (rank != shape.root) return one_section({put(shape.root, input(rank), rank)});
  RankPlan part = one_section({copy(input(rank), output(rank))});
  for (int i = 1; i < n; ++i) part.sections.push_back({{wait((rank + i) % n, (rank + i) % n)}});
  return part;
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    if (rank != shape.root) work.send(rank, shape.root, ceil_div(bytes, n), Payload::kDelivered);
  }
  return work.predict(n - 1);
}

}  // namespace

const Algorithm kGatherSequential = {
    .name = "sequential",
    .collective = TUTTI_GATHER,
    .summary = "the root takes one block after the other",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
