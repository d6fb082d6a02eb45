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

// An arrival that only travels on: nothing but the Wait tells its chunk.
inline Step wait_to_forward(int peer, int chunk) {
  return {.kind = StepKind::kWait, .peer = peer, .chunk = chunk};
}
inline Step copy(Place from, Place to) { return {.kind = StepKind::kCopy, .sources = {from}, .destinations = {to}}; }
inline Step put_signal(int peer) { return {.kind = StepKind::kPut, .peer = peer}; }

// A part with one section.
inline RankPlan one_section(std::vector<Step> steps) { return {{Section{std::move(steps)}}}; }

// The whole part of a rank that is alone: its input is the result, of an operation a finished one.
inline RankPlan alone(const PlanShape& shape) {
  if (shape.collective == TUTTI_BARRIER) return {};
  Step only = copy(input(0), output(0));
  only.finish = reduces(shape.collective);
  return one_section({only});
}

// All ranks' values of one chunk in rank order: the own input at its place, the others' arrivals.
inline std::vector<Place> in_rank_order(int nranks, int rank, int chunk) {
  std::vector<Place> sources;
  for (int r = 0; r < nranks; ++r) sources.push_back(r == rank ? input(chunk) : arrival(r));
  return sources;
}

}  // namespace tutti
