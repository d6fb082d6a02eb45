// Binomial tree: the root sends each subtree its blocks, and ranks pass on what is for those below them: log2(n) hops,
// and the root has log2(n) peers.
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

// A child's own block comes first, then those of the ranks below it.
RankPlan generate(const PlanShape& shape, int rank, int) {
  if (shape.nranks == 1) return alone(shape);
  BinomialTree tree(shape.nranks, shape.root);
  int parent = tree.parent(rank);
  std::vector<Step> steps;
  steps.push_back(parent == kNoRank ? copy(input(rank), output(rank)) : wait(parent, rank));
  for (int child : tree.children(rank)) {
    for (int chunk : tree.below(child)) {
      int into = chunk == child ? chunk : kNoChunk;
      if (parent == kNoRank) {
        steps.push_back(put(child, input(chunk), into));
      } else {
        steps.push_back(wait_to_forward(parent, chunk));
        steps.push_back(put(child, arrival(parent), into));
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
    work.send(tree.parent(rank), rank, part, Payload::kDelivered, static_cast<int>(tree.below(rank).size()));
  }
  return work.predict(tree.height(), tree.height());
}

}  // namespace

const Algorithm kScatterBinomialTree = {
    .name = "binomial_tree",
    .collective = TUTTI_SCATTER,
    .summary = "ranks pass on what is for those below them: log2(n) hops",
    .traits = {.carries_for_others = true},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
