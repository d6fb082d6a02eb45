// The root serves one rank after the other: it reads at one place at a time, and few slots are in use.
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
  if (rank != shape.root) return one_section({wait(shape.root, rank)});
  RankPlan part;
  for (int i = 1; i < n; ++i) {
    int to = (rank + i) % n;
    part.sections.push_back({{put(to, input(to), to)}});
  }
  part.sections.push_back({{copy(input(rank), output(rank))}});
  return part;
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    if (rank != shape.root) work.send(shape.root, rank, ceil_div(bytes, n), Payload::kDelivered);
  }
  return work.predict(n - 1);
}

}  // namespace

const Algorithm kScatterSequential = {
    .name = "sequential",
    .collective = TUTTI_SCATTER,
    .summary = "the root serves one rank after the other",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
