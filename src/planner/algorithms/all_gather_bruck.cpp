// Bruck's algorithm: at distance 1, 2, 4, ... each rank sends all blocks it has, so that it has twice as many after
// each hop: log2(n) hops on any number of ranks. Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby,
// "Efficient algorithms for all-to-all communications in multiport message-passing systems", IEEE TPDS 8 (1997).
#include <algorithm>

#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology&, const Request&) { return ""; }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("bruck", topology, request, tuning, topology.nranks());
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

// Sends and receives of a hop take turns, so that two slots per stream are enough.
RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  std::vector<Step> steps = {copy(input(rank), output(rank))};
  for (int distance = 1; distance < n; distance *= 2) {
    int to = (rank + n - distance) % n, from = (rank + distance) % n;
    for (int i = 0; i < std::min(distance, n - distance); ++i) {
      int sent = (rank + i) % n, received = (from + i) % n;
      steps.push_back(put(to, output(sent), sent));
      steps.push_back(wait(from, received));
    }
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  uint64_t part = ceil_div(bytes, n);
  Work work(inputs, shape);
  uint64_t hops = 0;
  for (int distance = 1; distance < n; distance *= 2, ++hops) {
    int blocks = std::min(distance, n - distance);
    for (int rank = 0; rank < n; ++rank) {
      work.send(rank, (rank + n - distance) % n, part, Payload::kDelivered, blocks);
    }
  }
  return work.predict(hops * work.slices_of(part));
}

}  // namespace

const Algorithm kAllGatherBruck = {
    .name = "bruck",
    .collective = TUTTI_ALL_GATHER,
    .summary = "ranks at distance 1, 2, 4, ... send all that they have: log2(n) hops",
    .traits = {.carries_for_others = true},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
