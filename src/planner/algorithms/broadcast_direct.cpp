// The root sends the vector to every other rank: one hop.
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
  return shape;
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  if (rank != shape.root) return one_section({wait(shape.root, 0)});
  std::vector<Step> steps = {copy(input(0), output(0))};
  for (int i = 1; i < n; ++i) steps.push_back(put((rank + i) % n, output(0), 0));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  work.send_to_others(shape.root, bytes, Payload::kDelivered);
  return work.predict(shape.nranks > 1 ? 1 : 0);
}

}  // namespace

const Algorithm kBroadcastDirect = {
    .name = "direct",
    .collective = TUTTI_BROADCAST,
    .summary = "the root sends to every other rank: one hop",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
