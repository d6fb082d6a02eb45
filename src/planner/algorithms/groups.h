// Ranks of GPUs in groups within groups of those near each other: of a GPU, of a host (topology/levels.h). What the
// hierarchical algorithms have in common: least goes where the way is long, and by all ranks of a group alike.
//
// A rank's number is one of mixed radix: its digit at level 0 is its place in the innermost group, that at level 1 the
// place of that group in the next larger one, and so on. Ranks that differ in one digit are peers at its level.
#pragma once

#include <string>
#include <vector>

#include "planner/cost.h"
#include "planner/planner.h"

namespace tutti {

// How one rank sees the groups.
class Groups {
 public:
  // Without groups in the shape all ranks are peers at one level.
  Groups(const PlanShape& shape, int rank);

  // The level of the peers in other groups of the largest kind.
  int top() const { return static_cast<int>(sizes_.size()) - 1; }
  // How many digits there are at a level.
  int size(int level) const { return sizes_[level]; }
  int own(int level) const { return digit(rank_, level); }
  // The digit that is so many after the own one, and the peer that has it.
  int next(int level, int k) const { return (own(level) + k) % sizes_[level]; }
  int peer(int level, int k) const { return peer_at(level, next(level, k)); }
  int peer_at(int level, int at) const { return with(rank_, level, at); }
  // The number with another digit.
  int with(int number, int level, int at) const { return number + (at - digit(number, level)) * strides_[level]; }
  int rank() const { return rank_; }
  // How many ranks the largest groups have, and which of its own this one is.
  int ranks_below_top() const { return strides_.back(); }
  int place_below_top() const { return rank_ % strides_.back(); }
  // How many numbers the digits between two levels make, with the upper one's and without the lower one's.
  int numbers_between(int lower, int upper) const {
    return strides_[upper] * sizes_[upper] / (strides_[lower] * sizes_[lower]);
  }

 private:
  int digit(int number, int level) const { return number / strides_[level] % sizes_[level]; }

  int rank_;
  std::vector<int> strides_, sizes_;  // of each level's digit
};

// Algorithm::admit: "" or why there are no groups to speak of, or none in which each rank holds few enough links: to
// its peers at all levels, or to all of its largest group.
std::string admit_peers(const Topology& topology, const Request& request);
std::string admit_groups(const Topology& topology, const Request& request);

// Algorithm::shape, with the groups that are predicted to be the fastest of those that the topology has, and a chunk
// for each rank, or for each place in the largest group. `predict` is the algorithm's.
using Predict = Prediction (*)(const CostInputs& inputs, const PlanShape& shape);
PlanShape shape_by_rank(const Topology& topology, const Request& request, const Tuning& tuning, Predict predict);
PlanShape shape_by_place(const Topology& topology, const Request& request, const Tuning& tuning, Predict predict);

// Chunk c from all ranks' inputs to rank c: at each level, from the innermost to the top, each rank combines its peers'
// sums of the chunks whose digits up to there are its own.
class LevelSums {
 public:
  // Where steps go.
  struct Phase {
    std::vector<Step>& steps;
    int lag = 0;
  };

  explicit LevelSums(const Groups& groups) : groups_(groups) {}

  // Peers at the level exchange their sums of the chunks that differ in this digit; returns what this rank then has to
  // combine for its own, in the order of ranks. What goes to peers is made and sent in the phase `before`.
  std::vector<Place> exchange(int level, int chunk, Phase before, Phase then);

  Place next_temp() { return temp(temps_++); }

 private:
  // Of the groups at the level and those within.
  Place sum(int level, int chunk, Phase phase);

  const Groups& groups_;
  int temps_ = 0;
};

// Chunk c, of as many as there are ranks, from all ranks' inputs to the output of rank c.
void reduce_scatter_by_levels(const Groups& groups, std::vector<Step>& steps);
void add_reduce_scatter(Work& work, const Request& request, const PlanShape& shape);

// Chunk `chunk` and those that differ from it in digits up to `level`, from the outputs of ranks that have these digits
// to those of all peers: from the outermost level to the innermost each passes on what it has. `root` has all.
void all_gather_by_levels(const Groups& groups, int level, int chunk, std::vector<Step>& steps, int lag = 0,
                          int root = -1);
void add_all_gather(Work& work, const Request& request, const PlanShape& shape, Payload payload);

}  // namespace tutti
