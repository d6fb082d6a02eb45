// Binomial tree: ranks collect the blocks of the ranks below them and pass them on to the root: log2(n) hops, and the
// root has log2(n) peers.
#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/binomial_tree.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

std::string admit(const Topology&, const Request&) { return ""; }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = pipelined_shape("binomial_tree", topology, request, tuning, topology.nranks());
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  if (shape.nranks == 1) return alone(shape);
  BinomialTree tree(shape.nranks, shape.root);
  int parent = tree.parent(rank);
  std::vector<Step> steps;
  steps.push_back(parent == kNoRank        ? copy(input(rank), output(rank))
                  : parent == shape.root ? put(parent, input(rank), rank)
                                         : put(parent, input(rank)));
  for (int child : tree.children(rank)) {
    for (int chunk : tree.below(child)) {
      if (parent == kNoRank) {
        steps.push_back(wait(child, chunk));
      } else {
        steps.push_back(wait_to_forward(child, chunk));
        steps.push_back(put(parent, arrival(child), parent == shape.root ? chunk : kNoChunk));
      }
    }
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t part = ceil_div(inputs.request.size_bytes(), n);
  BinomialTree tree(n, shape.root);
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    if (rank == shape.root) continue;
    work.send(rank, tree.parent(rank), part, Payload::kDelivered, static_cast<int>(tree.below(rank).size()));
  }
  return work.predict(tree.height(), tree.height());
}

}  // namespace

const Algorithm kGatherBinomialTree = {
    .name = "binomial_tree",
    .collective = TUTTI_GATHER,
    .summary = "ranks collect the blocks below them and pass them on: log2(n) hops",
    .traits = {.carries_for_others = true},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
