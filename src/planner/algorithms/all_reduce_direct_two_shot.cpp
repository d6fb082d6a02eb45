// Rank r reduces the r-th part of the message from all inputs and sends the result to all: two hops and the least
// traffic that an all-reduce needs; over mapped memory a single pass from all inputs to all outputs.
#include "planner/algorithms/algorithms.h"
#include "planner/cost.h"
#include "planner/shape.h"
#include "planner/algorithms/steps.h"

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

// The phases of three consecutive slices overlap. A round first takes what the round before has sent, so two slots per
// stream are enough: Puts go out in the order in0, out0, in1, out1 ... and Waits follow it. Peers are visited from rank
// + 1 on, so that no rank is everyone's first target.
RankPlan generate(const PlanShape& shape, int rank, int) {
  constexpr int kGather = 0, kReduce = 1, kSpread = 2;
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  auto after = [&](int i) { return (rank + i) % n; };
  auto before = [&](int i) { return (rank + n - i) % n; };

  std::vector<Step> steps;
  for (int i = 1; i < n; ++i) steps.push_back(wait(before(i), before(i), kSpread));
  for (int i = 1; i < n; ++i) steps.push_back(wait(before(i), kNoChunk, kReduce));
  steps.push_back(reduce(in_rank_order(n, rank, rank), output(rank), Finish::kYes, kReduce));
  for (int i = 1; i < n; ++i) steps.push_back(put(after(i), output(rank), rank, kReduce));
  for (int i = 1; i < n; ++i) steps.push_back(put(after(i), input(after(i)), kNoChunk, kGather));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  uint64_t part = ceil_div(bytes, n);
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    for (int i = 1; i < n; ++i) {
      work.send(rank, (rank + i) % n, part, Payload::kCopied);
      work.send(rank, (rank + i) % n, part, Payload::kStored);
    }
    if (n > 1) work.reduce(rank, n, part);
  }
  return work.predict(n > 1 ? 2 : 0);
}

}  // namespace

const Algorithm kAllReduceDirectTwoShot = {
    .name = "direct_two_shot",
    .collective = TUTTI_ALL_REDUCE,
    .summary = "each rank reduces one part and sends it to all: two hops",
    .traits = {.rank_tree = RankTree::kAlways},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
