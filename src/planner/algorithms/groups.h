// Ranks of GPUs in groups of those near each other: of each host where there are several hosts, else of each GPU. What
// the hierarchical algorithms have in common: least goes where the way is long, and by all ranks of a group alike.
#pragma once

#include <string>
#include <vector>

#include "planner/cost.h"
#include "planner/planner.h"

namespace tutti {

// How one rank sees the groups.
class Groups {
 public:
  // Without groups in the shape all ranks are one.
  Groups(const PlanShape& shape, int rank)
      : size(shape.group > 0 ? shape.group : shape.nranks),
        count(shape.nranks / size),
        own(rank / size),
        place(rank % size) {}

  int member(int group, int at) const { return group * size + at; }
  // The group that is so many after the own one.
  int after(int i) const { return (own + i) % count; }
  // The place that is so many after the own one, and the rank there.
  int next(int k) const { return (place + k) % size; }
  int near(int k) const { return member(own, next(k)); }
  // The rank of the own place in a group.
  int far(int group) const { return member(group, place); }

  const int size;   // ranks of each
  const int count;  // of groups
  const int own;
  const int place;  // of the rank in its own
};

// Ranks of each group, which are consecutive and as many in all; 0 where they are not.
int ranks_per_group(const Topology& topology);

// Algorithm::admit: "" or why there are no groups to speak of.
std::string admit_groups(const Topology& topology, const Request& request);
// And where each rank talks to all of its group, and to the ranks of its place in all others.
std::string admit_linked_groups(const Topology& topology, const Request& request);

// Algorithm::shape: with the groups, and a chunk for each rank, or for each place in a group.
PlanShape shape_by_rank(const Topology& topology, const Request& request, const Tuning& tuning);
PlanShape shape_by_place(const Topology& topology, const Request& request, const Tuning& tuning);

// Chunk c, the c-th of as many as there are ranks, from all ranks' inputs to the output of rank c: each group
// reduce-scatters within itself for each group, and ranks of equal place combine what they got.
void reduce_scatter_by_groups(const Groups& groups, int rank, std::vector<Step>& steps);
void add_reduce_scatter(Work& work, const Request& request, const PlanShape& shape);

// Chunk c from the output of rank c to those of all: to ranks of equal place, each of which passes on what it has to
// its group.
void all_gather_by_groups(const Groups& groups, int rank, std::vector<Step>& steps);
void add_all_gather(Work& work, const Request& request, const PlanShape& shape, Payload payload);

}  // namespace tutti
