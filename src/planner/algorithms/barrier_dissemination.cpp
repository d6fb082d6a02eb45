// Dissemination: at distance 1, 2, 4, ... each rank signals one other, so that after log2(n) hops it has heard of all.
// Source: D. Hensgen, R. Finkel, U. Manber, "Two algorithms for barrier synchronization", IJPP 17 (1988).
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology&, const Request&) { return ""; }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  Tuning one_channel = tuning;
  one_channel.channels = 1;
  return basic_shape("dissemination", topology, request, one_channel);
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  std::vector<Step> steps;
  for (int distance = 1; distance < n; distance *= 2) {
    steps.push_back(put_signal((rank + distance) % n));
    steps.push_back(wait((rank + n - distance) % n));
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  Work work(inputs, shape);
  uint64_t hops = 0;
  for (int distance = 1; distance < n; distance *= 2, ++hops) {
    for (int rank = 0; rank < n; ++rank) work.send(rank, (rank + distance) % n, 0, Payload::kPartial);
  }
  return work.predict(hops);
}

}  // namespace

const Algorithm kBarrierDissemination = {
    .name = "dissemination",
    .collective = TUTTI_BARRIER,
    .summary = "ranks at distance 1, 2, 4, ... signal each other: log2(n) hops",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
