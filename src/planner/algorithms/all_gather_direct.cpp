// Every rank sends its block to every other: one hop.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology& topology, const Request&) { return admit_all_pairs(topology); }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("direct", topology, request, tuning, topology.nranks());
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  std::vector<Step> steps;
  for (int i = 1; i < n; ++i) steps.push_back(put((rank + i) % n, input(rank), rank));
  steps.push_back(copy(input(rank), output(rank)));
  for (int i = 1; i < n; ++i) steps.push_back(wait((rank + n - i) % n, (rank + n - i) % n));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) work.send_to_others(rank, ceil_div(bytes, n), Payload::kDelivered);
  return work.predict(n > 1 ? 1 : 0);
}

}  // namespace

const Algorithm kAllGatherDirect = {
    .name = "direct",
    .collective = TUTTI_ALL_GATHER,
    .summary = "every rank sends its block to every other: one hop",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
