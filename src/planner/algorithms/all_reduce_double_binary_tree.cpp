// Double binary tree: each half of the message is reduced up and spread down its own tree. Every rank is an inner node
// of at most one of the two, so both halves together use the whole bandwidth of every rank, in O(log n) hops. Source:
// P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
// Computing 35 (2009): trees in in-order numbering, the second mirrored (even n) or shifted by one rank (odd n).
#include "planner/algorithms/algorithms.h"
#include "planner/cost.h"
#include "planner/shape.h"
#include "planner/algorithms/steps.h"

namespace tutti {
namespace {

// The in-order tree of nodes 1..n: nodes with k trailing zero bits have level k, odd ones are leaves.
int lowest_bit(int node) { return node & -node; }

// The root of the nodes in (node, node + bit) that exist, 0 if none.
int right_child(int node, int n) {
  for (int half = lowest_bit(node) / 2; half > 0; half /= 2) {
    if (node + half <= n) return node + half;
  }
  return 0;
}
int left_child(int node) {
  int half = lowest_bit(node) / 2;
  return half > 0 ? node - half : 0;
}

// The next node upwards that exists, 0 for the root: the largest power of two.
int parent(int node, int n) {
  bool is_root = node == lowest_bit(node) && node > n / 2;
  if (is_root) return 0;
  do {
    int bit = lowest_bit(node);
    node = (node & ~bit) | (2 * bit);
  } while (node > n);
  return node;
}

int depth(int node, int n) {
  int depth = 0;
  while ((node = parent(node, n)) != 0) ++depth;
  return depth;
}

// Ranks and nodes: the tree of even channels numbers them alike, that of odd ones mirrored or shifted.
int node_of(int rank, int n, int channel) {
  if (channel % 2 == 0) return rank + 1;
  return n % 2 == 0 ? n - rank : (rank + n - 1) % n + 1;
}
int rank_of(int node, int n, int channel) {
  if (channel % 2 == 0) return node - 1;
  return n % 2 == 0 ? n - node : node % n;
}

std::string admit(const Topology&, const Request&) { return ""; }

// Each tree has channels of its own, so that what a pair of ranks sends in one tree never waits for the other.
PlanShape shape(const Topology& topology, const Request& request, const Tuning& tuning) {
  Tuning paired = tuning;
  paired.channels = tuning.channels + tuning.channels % 2;
  paired.workers = tuning.workers + tuning.workers % 2;
  PlanShape shape = pipelined_shape("double_binary_tree", topology, request, paired, 1, 2);
  shape.by_reference = Permission::kAlways;
  shape.deliver_directly = Permission::kAlways;
  return shape;
}

// What is sent down comes back 2 * depth hops after it went up, so slices go down with that lag and the ones between
// fill the pipeline. Children's lag is two larger: two slots per stream are enough.
RankPlan generate(const PlanShape& shape, int rank, int channel) {
  int n = shape.nranks;
  if (n == 1) return alone(shape);
  int node = node_of(rank, n, channel);
  int lag = 2 * depth(node, n);
  std::vector<int> children;
  for (int child : {left_child(node), right_child(node, n)}) {
    if (child != 0) children.push_back(rank_of(child, n, channel));
  }

  std::vector<Step> steps;
  std::vector<Place> sources;
  for (int child : children) {
    steps.push_back(wait(child));
    sources.push_back(arrival(child));
  }
  sources.push_back(input(0));
  if (int up = parent(node, n); up == 0) {
    steps.push_back(reduce(sources, output(0), Finish::kYes));
  } else {
    int above = rank_of(up, n, channel);
    if (!children.empty()) steps.push_back(reduce(sources, temp(0), Finish::kNo));
    steps.push_back(put(above, children.empty() ? input(0) : temp(0)));
    steps.push_back(wait(above, 0, lag));
  }
  for (int child : children) steps.push_back(put(child, output(0), 0, lag));
  return one_section(std::move(steps));
}

Prediction predict(const CostInputs& inputs, const PlanShape& shape) {
  int n = shape.nranks;
  uint64_t bytes = inputs.request.size_bytes();
  uint64_t half = ceil_div(bytes, 2);
  Work work(inputs, shape);
  int height = 0;
  for (int tree = 0; tree < 2; ++tree) {
    for (int rank = 0; rank < n; ++rank) {
      int node = node_of(rank, n, tree);
      int up = parent(node, n);
      int left = left_child(node), right = right_child(node, n);
      int children = (left != 0) + (right != 0);
      if (children > 0) work.reduce_partial(rank, children + 1, half);
      height = std::max(height, depth(node, n));
      if (up == 0) continue;
      int above = rank_of(up, n, tree);
      work.send(rank, above, half, children == 0 ? Payload::kCopied : Payload::kPartial);
      work.send(above, rank, half, Payload::kStored);
    }
  }
  return work.predict(2 * height, 2 * height);
}

}  // namespace

const Algorithm kAllReduceDoubleBinaryTree = {
    .name = "double_binary_tree",
    .collective = TUTTI_ALL_REDUCE,
    .summary = "two trees, each for half of the message: full bandwidth in O(log n) hops",
    .admit = admit,
    .shape = shape,
    .generate = generate,
    .predict = predict};

}  // namespace tutti
