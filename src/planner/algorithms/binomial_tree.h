// The binomial tree of broadcast, gather and scatter: counted from the root, the parent of a rank has the lowest set
// bit cleared.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

namespace tutti {

inline constexpr int kNoRank = -1;

class BinomialTree {
 public:
  BinomialTree(int nranks, int root) : nranks_(nranks), root_(root) {}

  // kNoRank for the root.
  int parent(int rank) const {
    int node = node_of(rank);
    return node == 0 ? kNoRank : rank_of(node & (node - 1));
  }
  // Those with most ranks below them first.
  std::vector<int> children(int rank) const {
    int node = node_of(rank);
    int bit = 1;
    while (bit < nranks_ && (node & bit) == 0) bit *= 2;
    std::vector<int> children;
    for (bit /= 2; bit > 0; bit /= 2) {
      if (node + bit < nranks_) children.push_back(rank_of(node + bit));
    }
    return children;
  }
  // The rank itself, then all ranks below it.
  std::vector<int> below(int rank) const {
    std::vector<int> ranks = {rank};
    for (int child : children(rank)) {
      for (int each : below(child)) ranks.push_back(each);
    }
    return ranks;
  }
  // Hops from the root to the rank that is farthest away.
  int height() const {
    int height = 0;
    for (int node = 0; node < nranks_; ++node) height = std::max(height, std::popcount(static_cast<unsigned>(node)));
    return height;
  }

 private:
  int node_of(int rank) const { return (rank + nranks_ - root_) % nranks_; }
  int rank_of(int node) const { return (node + root_) % nranks_; }

  int nranks_;
  int root_;
};

}  // namespace tutti
