// Binomial tree: pairs of ranks combine, then pairs of pairs, and so on: log2(n) hops. The tree is the one over rank
// indices whatever the root is: of two neighbouring blocks of ranks one sends to the other, the one that has the root
// receives, else the lower.
#include <algorithm>

#include "planner/algorithms/algorithms.h"
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

// The rank that holds the result of the block of 2^level ranks that begins at `begin`.
int holder(int begin, int level, int root) { return begin <= root && root < begin + (1 << level) ? root : begin; }

struct Merge {
  int level;
  int partner;    // holder of the neighbouring block
  bool receives;
};

// What `rank` does, level by level, until it has sent.
std::vector<Merge> merges_of(const PlanShape& shape, int rank) {
  std::vector<Merge> merges;
  for (int level = 0; (1 << level) < shape.nranks; ++level) {
    int size = 1 << level;
    int own = rank / size * size;
    int other = own ^ size;
    if (other >= shape.nranks) continue;  // carried up
    int both = std::min(own, other);
    bool receives = holder(both, level + 1, shape.root) == rank;
    merges.push_back({level, holder(other, level, shape.root), receives});
    if (!receives) break;
  }
  return merges;
}

RankPlan generate(const PlanShape& shape, int rank, int) {
  if (shape.nranks == 1) return alone(shape);
  std::vector<Step> steps;
  Place mine = input(0);
  auto merges = merges_of(shape, rank);
  for (const Merge& merge : merges) {
    if (!merge.receives) {
      steps.push_back(put(merge.partner, mine));
      break;
    }
    bool last = rank == shape.root && merge.level == merges.back().level;
    Place combined = last ? output(0) : temp(merge.level);
    steps.push_back(wait(merge.partner));
    std::vector<Place> sources = {mine, arrival(merge.partner)};
    if (merge.partner < rank) std::swap(sources[0], sources[1]);
    steps.push_back(reduce(std::move(sources), combined, last ? Finish::kYes : Finish::kNo));
    mine = combined;
  }
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  int levels = 0;
  for (int rank = 0; rank < shape.nranks; ++rank) {
    for (const Merge& merge : merges_of(shape, rank)) {
      levels = std::max(levels, merge.level + 1);
      if (merge.receives) {
        work.reduce_partial(rank, 2, bytes);
      } else {
        work.send(rank, merge.partner, bytes, merge.level == 0 ? Payload::kCopied : Payload::kPartial);
      }
    }
  }
  return work.predict(levels, levels);
}

}  // namespace

const Algorithm kReduceBinomialTree = {
    .name = "binomial_tree",
    .collective = TUTTI_REDUCE,
    .summary = "pairs of ranks combine, then pairs of pairs: log2(n) hops",
    .traits = {.rank_tree = RankTree::kAlways},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
