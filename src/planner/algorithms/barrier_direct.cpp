// Every rank signals every other: one hop.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology& topology, const Request&) { return admit_all_pairs(topology); }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  Tuning one_channel = tuning;
  one_channel.channels = 1;
  return basic_shape("direct", topology, request, one_channel);
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  std::vector<Step> steps;
  for (int i = 1; i < n; ++i) steps.push_back(put_signal((rank + i) % n));
  for (int i = 1; i < n; ++i) steps.push_back(wait((rank + n - i) % n));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    for (int i = 1; i < n; ++i) work.send(rank, (rank + i) % n, 0, Payload::kPartial);
  }
  return work.predict(n > 1 ? 1 : 0);
}

}  // namespace

const Algorithm kBarrierDirect = {
    .name = "direct",
    .collective = TUTTI_BARRIER,
    .summary = "every rank signals every other: one hop",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
