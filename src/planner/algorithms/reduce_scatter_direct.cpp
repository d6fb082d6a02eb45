// Every rank sends every other its block, and reduces its own from all: one hop.
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
  shape.by_chunk = true;
  return shape;
}

// What the slice before has sent is reduced first: two slots per stream are enough.
RankPlan generate(const PlanShape& shape, int rank, int) {
  constexpr int kGather = 0, kReduce = 1;
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  std::vector<Step> steps;
  for (int i = 1; i < n; ++i) steps.push_back(wait((rank + n - i) % n, kNoChunk, kReduce));
  steps.push_back(reduce(in_rank_order(n, rank, rank), output(rank), Finish::kYes, kReduce));
  for (int i = 1; i < n; ++i) steps.push_back(put((rank + i) % n, input((rank + i) % n), kNoChunk, kGather));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  uint64_t part = ceil_div(bytes, n);
  Work work(inputs, shape);
  for (int rank = 0; rank < n && n > 1; ++rank) {
    for (int i = 1; i < n; ++i) work.send(rank, (rank + i) % n, part, Payload::kCopied);
    work.reduce(rank, n, part);
  }
  return work.predict(n > 1 ? 1 : 0);
}

}  // namespace

const Algorithm kReduceScatterDirect = {
    .name = "direct",
    .collective = TUTTI_REDUCE_SCATTER,
    .summary = "every rank reduces its block from all inputs: one hop",
    .traits = {.rank_tree = RankTree::kAlways},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
