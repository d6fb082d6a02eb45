// Pairs of ranks exchange their blocks, one pair after the other: each rank has one partner at a time, so that no
// receiver is flooded and few slots are in use.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology&, const Request&) { return ""; }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("pairwise", topology, request, tuning, topology.nranks());
  shape.chunks = shape.nranks * shape.nranks;  // of which each rank has nranks
  shape.by_reference = Permission::kUnlessInPlace;
  shape.deliver_directly = Permission::kUnlessInPlace;
  return shape;
}

// In turn k the partner of rank r is (k - r) mod n: both have each other. A slice is sent before its counterpart is
// received, so that in place nothing is overwritten that is still needed.
RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  auto chunk = [n](int from, int to) { return from * n + to; };
  if (n == 1) return alone(shape);
  RankPlan part;
  for (int turn = 0; turn < n; ++turn) {
    int partner = (turn + n - rank) % n;
    int out = chunk(rank, partner), in = chunk(partner, rank);
    if (partner == rank) {
      part.sections.push_back({{copy(input(out), output(out))}});
    } else {
      part.sections.push_back({{put(partner, input(out), out), wait(partner, in)}});
    }
  }
  return part;
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    for (int i = 1; i < n; ++i) work.send(rank, (rank + i) % n, ceil_div(bytes, n), Payload::kDelivered);
  }
  return work.predict(n - 1);
}

}  // namespace

const Algorithm kAllToAllPairwise = {
    .name = "pairwise",
    .collective = TUTTI_ALL_TO_ALL,
    .summary = "pairs exchange, one pair after the other: n-1 hops, one partner at a time",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
