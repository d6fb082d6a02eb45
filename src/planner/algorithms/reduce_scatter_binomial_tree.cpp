// Binomial tree: pairs of ranks combine all blocks, then pairs of pairs, up to rank 0, and each block goes down the
// same tree to its owner: 2 log2(n) hops, log2(n) peers at most, and on any number of ranks the order of the tree over
// rank indices.
#include <algorithm>

#include "planner/algorithms/algorithms.h"
#include "planner/algorithms/binomial_tree.h"
#include "planner/algorithms/steps.h"
#include "planner/cost.h"
#include "planner/shape.h"

namespace tutti {
namespace {

constexpr uint64_t kHeldBytes = 16 * 1024 * 1024;  // of one slice of every block, which rank 0 holds
constexpr int kMostMerges = 16;                    // of one rank: the levels of a tree of kMaxPlanRanks

std::string admit(const Topology&, const Request&) { return ""; }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("binomial_tree", topology, request, tuning, topology.nranks());
  uint64_t held = kHeldBytes / growth_of_partial_results(request) / topology.nranks();
  shape.slice_bytes = std::min(shape.slice_bytes, std::max<uint64_t>(1, held / 64) * 64);
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

// What a rank has of the chunk after so many merges with ranks below it.
Place sum_of(int chunk, int merges) { return merges == 0 ? input(chunk) : temp(chunk * kMostMerges + merges - 1); }

// All sends of a round that go up come before the first wait for what comes down: ranks on the way up wait for nobody
// but those below them.
RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  BinomialTree tree(n, 0);
  int parent = tree.parent(rank);
  std::vector<int> children = tree.children(rank);
  int merges = static_cast<int>(children.size());
  std::vector<Step> steps;
  for (int chunk = 0; chunk < n; ++chunk) {
    for (int i = 0; i < merges; ++i) {
      int child = children[merges - 1 - i];
      bool last = parent == kNoRank && i + 1 == merges;
      steps.push_back(wait(child));
      Place combined = last && chunk == rank ? output(chunk) : sum_of(chunk, i + 1);
      steps.push_back(reduce({sum_of(chunk, i), arrival(child)}, combined, last ? Finish::kYes : Finish::kNo));
    }
    if (parent != kNoRank) steps.push_back(put(parent, sum_of(chunk, merges)));
  }

  if (parent != kNoRank) steps.push_back(wait(parent, rank));
  for (int child : children) {
    for (int chunk : tree.below(child)) {
      if (parent != kNoRank) steps.push_back(wait_to_forward(parent, chunk));
      Place result = parent == kNoRank ? sum_of(chunk, merges) : arrival(parent);
      steps.push_back(put(child, result, chunk == child ? chunk : kNoChunk));
    }
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  uint64_t part = ceil_div(bytes, n);
  BinomialTree tree(n, 0);
  Work work(inputs, shape);
  for (int rank = 0; rank < n; ++rank) {
    int children = static_cast<int>(tree.children(rank).size());
    if (children > 0) work.reduce_partial(rank, 2, part, n * children);
    if (rank == 0) continue;
    int parent = tree.parent(rank);
    work.send(rank, parent, part, children == 0 ? Payload::kCopied : Payload::kPartial, n);
    work.send(parent, rank, part, Payload::kDelivered, static_cast<int>(tree.below(rank).size()));
  }
  // Slices do not overlap, so every hop of every slice is on the way.
  return work.predict(2 * tree.height() * work.slices_of(part));
}

}  // namespace

const Algorithm kReduceScatterBinomialTree = {
    .name = "binomial_tree",
    .collective = TUTTI_REDUCE_SCATTER,
    .summary = "pairs of ranks combine, then pairs of pairs, and each block goes back to its owner: 2 log2(n) hops",
    .traits = {.rank_tree = RankTree::kAlways, .carries_for_others = true},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
