// Binomial tree: pairs of ranks combine, then pairs of pairs, up to rank 0, and the result goes down the same tree: 2
// log2(n) hops, log2(n) peers at most, and on any number of ranks the order of the tree over rank indices.
#include <bit>

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

// Slices go down so many rounds after they went up: they are on the way for a hop per level in both directions.
RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  BinomialTree tree(n, 0);
  int parent = tree.parent(rank);
  int lag = 2 * std::popcount(static_cast<unsigned>(rank));
  std::vector<int> children = tree.children(rank);

  std::vector<Step> steps;
  Place mine = input(0);
  for (auto child = children.rbegin(); child != children.rend(); ++child) {
    bool last = parent == kNoRank && child + 1 == children.rend();
    Place combined = last ? output(0) : temp(*child);
    steps.push_back(wait(*child));
    steps.push_back(reduce({mine, arrival(*child)}, combined, last ? Finish::kYes : Finish::kNo));
    mine = combined;
  }
  if (parent != kNoRank) {
    steps.push_back(put(parent, mine));
    steps.push_back(wait(parent, 0, lag));
  }
  for (int child : children) steps.push_back(put(child, output(0), 0, lag));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  BinomialTree tree(n, 0);
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    auto children = tree.children(rank);
    if (!children.empty()) work.reduce_partial(rank, 2, bytes, static_cast<int>(children.size()));
    if (rank == 0) continue;
    work.send(rank, tree.parent(rank), bytes, children.empty() ? Payload::kCopied : Payload::kPartial);
    work.send(tree.parent(rank), rank, bytes, Payload::kStored);
  }
  return work.predict(2 * tree.height(), 2 * tree.height());
}

}  // namespace

const Algorithm kAllReduceBinomialTree = {
    .name = "binomial_tree",
    .collective = TUTTI_ALL_REDUCE,
    .summary = "pairs of ranks combine, then pairs of pairs, and back: 2 log2(n) hops",
    .traits = {.rank_tree = RankTree::kAlways},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
