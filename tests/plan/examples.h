// Plans for the tests of this folder.
#pragma once

#include <functional>
#include <vector>

#include "plan/plan.h"
#include "planner/planner.h"
#include "planner/topologies.h"

namespace tutti::test {

// Written out, so that tests can change it.
struct WrittenPlan {
  PlanShape shape;
  std::vector<RankPlan> parts;  // [rank * channels + channel]

  Plan plan() const { return Plan(shape, parts); }
  std::vector<Step>& steps(int rank) { return parts[rank * shape.channels].sections[0].steps; }
};

inline WrittenPlan write_out(const Algorithm& algorithm, int nranks) {
  Request request;
  request.collective = algorithm.collective;
  if (has_root(algorithm.collective)) request.root = nranks / 2;
  request.count = 1000;
  WrittenPlan written;
  written.shape = algorithm.shape(make_topology(1, nranks), request, {});
  for (int rank = 0; rank < nranks; ++rank) {
    for (int channel = 0; channel < written.shape.channels; ++channel) {
      written.parts.push_back(algorithm.generate(written.shape, rank, channel));
    }
  }
  return written;
}

// An all-reduce.
inline WrittenPlan write_out(std::string_view algorithm, int nranks) {
  return write_out(*find_algorithm(TUTTI_ALL_REDUCE, algorithm), nranks);
}

}  // namespace tutti::test
