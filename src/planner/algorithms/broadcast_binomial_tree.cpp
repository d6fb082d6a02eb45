// Binomial tree: who has the vector passes it on to ranks at half the distance each time: log2(n) hops. Source: R.
// Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19 (2005).
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/binomial_tree.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology&, const Request&) { return ""; }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = pipelined_shape("binomial_tree", topology, request, tuning);
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  if (shape.nranks == 1) return alone(shape);
  BinomialTree tree(shape.nranks, shape.root);
  int parent = tree.parent(rank);
  std::vector<Step> steps;
  steps.push_back(parent == kNoRank ? copy(input(0), output(0)) : wait(parent, 0));
  for (int child : tree.children(rank)) steps.push_back(put(child, output(0), 0));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  uint64_t bytes = inputs.request.size_bytes();
  BinomialTree tree(shape.nranks, shape.root);
  Work work(inputs, shape);
  for (int rank = 0; rank < shape.nranks; ++rank) {
    for (int child : tree.children(rank)) work.send(rank, child, bytes, Payload::kDelivered);
  }
  return work.predict(tree.height(), tree.height());
}

}  // namespace

const Algorithm kBroadcastBinomialTree = {
    .name = "binomial_tree",
    .collective = TUTTI_BROADCAST,
    .summary = "ranks that have the vector pass it on: log2(n) hops",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
