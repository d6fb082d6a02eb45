// Makes steps: the vocabulary of the algorithms in this folder.
#pragma once

#include <utility>
#include <vector>

#include "plan/plan.h"

namespace tutti {

enum class Finish : bool { kNo, kYes };

inline Step put(int peer, Place source, int into = kNoChunk, int lag = 0) {
  return {.kind = StepKind::kPut, .peer = peer, .into = into, .lag = static_cast<uint8_t>(lag), .sources = {source}};
}
inline Step wait(int peer, int into = kNoChunk, int lag = 0) {
  return {.kind = StepKind::kWait, .peer = peer, .into = into, .lag = static_cast<uint8_t>(lag)};
}
inline Step reduce(std::vector<Place> sources, Place to, Finish finish, int lag = 0) {
  return {.kind = StepKind::kReduce,
          .lag = static_cast<uint8_t>(lag),
          .finish = finish == Finish::kYes,
          .sources = std::move(sources),
          .destinations = {to}};
}

// One section that repeats for every slice.
inline RankPlan per_slice(std::vector<Step> steps) { return {{Section{Repeat::kPerSlice, std::move(steps)}}}; }

// The whole part of a rank that is alone: its input is the result.
inline RankPlan alone() {
  Step copy{.kind = StepKind::kCopy, .finish = true, .sources = {input(0)}, .destinations = {output(0)}};
  return per_slice({copy});
}

// All ranks' values of one chunk in rank order: the own input at its place, the others' arrivals.
inline std::vector<Place> in_rank_order(int nranks, int rank, int chunk) {
  std::vector<Place> sources;
  for (int r = 0; r < nranks; ++r) sources.push_back(r == rank ? input(chunk) : arrival(r));
  return sources;
}

}  // namespace tutti
