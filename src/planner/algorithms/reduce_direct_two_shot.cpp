// Rank r reduces the r-th part of the vector from all inputs and sends the result to the root: two hops, and all ranks
// share the work.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology& topology, const Request&) { return admit_all_pairs(topology); }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("direct_two_shot", topology, request, tuning, topology.nranks());
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  shape.by_chunk = true;
  return shape;
}

// The phases of three consecutive slices overlap, as in the all-reduce of this name.
RankPlan generate(const PlanShape& shape, int rank, int) {
  constexpr int kGather = 0, kReduce = 1, kCollect = 2;
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  bool is_root = rank == shape.root;
  Place result = is_root ? output(rank) : temp(0);
  std::vector<Step> steps;
  for (int i = 1; i < n && is_root; ++i) steps.push_back(wait((rank + n - i) % n, (rank + n - i) % n, kCollect));
  for (int i = 1; i < n; ++i) steps.push_back(wait((rank + n - i) % n, kNoChunk, kReduce));
  steps.push_back(reduce(in_rank_order(n, rank, rank), result, Finish::kYes, kReduce));
  if (!is_root) steps.push_back(put(shape.root, result, rank, kReduce));
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
    if (rank != shape.root) work.send(rank, shape.root, part, Payload::kStored);
    work.reduce(rank, n, part);
  }
  return work.predict(n > 1 ? 2 : 0);
}

}  // namespace

const Algorithm kReduceDirectTwoShot = {
    .name = "direct_two_shot",
    .collective = TUTTI_REDUCE,
    .summary = "each rank reduces one part and sends it to the root: two hops",
    .traits = {.rank_tree = RankTree::kAlways},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
