// Every rank sends to all others at once: one hop.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology& topology, const Request&) { return admit_all_pairs(topology); }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("direct", topology, request, tuning, topology.nranks());
  shape.chunks = shape.nranks * shape.nranks;  // of which each rank has nranks
  shape.by_reference = Permission::kUnlessInPlace;
  shape.deliver_directly = Permission::kUnlessInPlace;
  return shape;
}

// A slice is sent to all before any is received, so that in place nothing is overwritten that is still needed.
RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  auto chunk = [n](int from, int to) { return from * n + to; };
  if (n == 1) return alone(shape);
  std::vector<Step> steps;
  for (int i = 1; i < n; ++i) {
    int to = (rank + i) % n;
    steps.push_back(put(to, input(chunk(rank, to)), chunk(rank, to)));
  }
  steps.push_back(copy(input(chunk(rank, rank)), output(chunk(rank, rank))));
  for (int i = 1; i < n; ++i) {
    int from = (rank + n - i) % n;
    steps.push_back(wait(from, chunk(from, rank)));
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    for (int i = 1; i < n; ++i) work.send(rank, (rank + i) % n, ceil_div(bytes, n), Payload::kDelivered);
  }
  return work.predict(n > 1 ? 1 : 0);
}

}  // namespace

const Algorithm kAllToAllDirect = {
    .name = "direct",
    .collective = TUTTI_ALL_TO_ALL,
    .summary = "every rank sends to all others at once: one hop",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
