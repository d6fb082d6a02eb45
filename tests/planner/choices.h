// Requests and choices as the planner's tests make them.
#pragma once

#include <catch2/catch.hpp>

#include "planner/planner.h"

namespace tutti {

// An all-reduce of so much.
inline Request bytes(uint64_t size_bytes) {
  Request request;
  request.count = size_bytes / 4;
  return request;
}

inline Choice must_choose(const Topology& topology, const Request& request, const Tuning& tuning = {}) {
  Result<Choice> choice = choose(topology, request, tuning);
  INFO(choice.status().message());
  REQUIRE(choice.ok());
  return std::move(choice).value();
}

inline std::string name_chosen(const Topology& topology, uint64_t size_bytes) {
  return must_choose(topology, bytes(size_bytes)).plan.shape().algorithm;
}

// 0 where it was not admitted.
inline uint64_t predicted(const Choice& choice, std::string_view algorithm) {
  for (const Candidate& candidate : choice.candidates) {
    if (candidate.algorithm == algorithm) return candidate.predicted_ns;
  }
  return 0;
}

inline uint64_t predicted_by(const Topology& topology, Collective collective, std::string_view algorithm,
                             uint64_t size_bytes) {
  Request request = bytes(size_bytes);
  request.collective = collective;
  request.root = has_root(collective) ? 0 : -1;
  return predicted(must_choose(topology, request), algorithm);
}

// Of the algorithm "direct".
inline uint64_t predicted_of(const Topology& topology, Collective collective, uint64_t size_bytes) {
  return predicted_by(topology, collective, "direct", size_bytes);
}

}  // namespace tutti
