// Recursive doubling: pairs of ranks at distance 1, 2, 4, ... exchange what they have and combine it: log2(n) hops with
// the whole message. Ranks beyond the largest power of two hand their input to a partner and get the result back.
// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
// 19 (2005).
#include <bit>

#include "planner/algorithms/algorithms.h"
#include "planner/cost.h"
#include "planner/shape.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

std::string admit(const Topology&, const Request&) { return ""; }

PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  PlanShape shape = basic_shape("recursive_doubling", topology, request, tuning);
  // In place the last reduction overwrites the input, which the first partner may still be reading.
  shape.by_reference = Permission::kUnlessInPlace;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

int largest_power_of_two(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }

// The value of the lower ranks comes first, so both partners of every exchange compute the same bits.
RankPlan generate(const PlanShape& shape, int rank, int) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  int core = largest_power_of_two(n);
  if (rank >= core) return one_section({put(rank - core, input(0)), wait(rank - core, 0)});

  std::vector<Step> steps;
  Place mine = input(0);
  int extra = rank + core < n ? rank + core : -1;
  if (extra >= 0) {
    steps.push_back(wait(extra));
    steps.push_back(reduce({mine, arrival(extra)}, temp(0), Finish::kNo));
    mine = temp(0);
  }
  for (int distance = 1, id = 1; distance < core; distance *= 2, ++id) {
    int partner = rank ^ distance;
    bool last = distance * 2 == core;
    Place combined = last ? output(0) : temp(id);
    steps.push_back(put(partner, mine));
    steps.push_back(wait(partner));
    std::vector<Place> sources = {mine, arrival(partner)};
    if (partner < rank) std::swap(sources[0], sources[1]);
    steps.push_back(reduce(std::move(sources), combined, last ? Finish::kYes : Finish::kNo));
    mine = combined;
  }
  if (extra >= 0) steps.push_back(put(extra, output(0), 0));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  int core = largest_power_of_two(n);
  uint64_t bytes = inputs.request.size_bytes();
  Work work(inputs, shape);
  int exchanges = std::countr_zero(static_cast<unsigned>(core));
  for (int rank = core; rank < n; ++rank) {
    work.send(rank, rank - core, bytes, Payload::kCopied);
    work.reduce_partial(rank - core, 2, bytes);
    work.send(rank - core, rank, bytes, Payload::kStored);
  }
  for (int rank = 0; rank < core; ++rank) {
    for (int distance = 1; distance < core; distance *= 2) {
      work.send(rank, rank ^ distance, bytes, distance == 1 && rank + core >= n ? Payload::kCopied : Payload::kPartial);
      work.reduce_partial(rank, 2, bytes);
    }
  }
  // A rank works on one slice at a time, so every hop of every slice is on the way.
  uint64_t hops = exchanges + (core < n ? 2 : 0);
  return work.predict(hops * work.slices_of(bytes));
}

}  // namespace

const Algorithm kAllReduceRecursiveDoubling = {
    .name = "recursive_doubling",
    .collective = TUTTI_ALL_REDUCE,
    .summary = "partners at distance 1, 2, 4, ... exchange everything: log2(n) hops",
    .traits = {.rank_tree = RankTree::kPowersOfTwo},
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
