// From measurements of all algorithms at some sizes to the sizes between which each is the one to run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::bench {

struct AlgorithmTime {
  std::string algorithm;
  double time_us = 0;
};

inline constexpr uint64_t kFirstClassBytes = 64;  // calls of less, and barriers, are planned like those

// What was measured at one size.
struct TunedRow {
  uint64_t size_bytes = 0;
  AlgorithmTime by_default;  // what the planner chooses
  AlgorithmTime fastest;
  double predicted_us = 0;   // for the default

  double ratio() const { return by_default.time_us / fastest.time_us; }
  // Smaller gains may be noise.
  static constexpr double kLeastGain = 1.05;
  bool gains() const { return ratio() > kLeastGain; }
};

struct Crossover {
  uint64_t up_to_bytes;
  std::string algorithm;  // "": the planner's choice
  friend bool operator==(const Crossover&, const Crossover&) = default;
};

// `rows` ascend in size. Borders are between size classes: powers of two, since that is how the library looks an
// algorithm up. Between two classes the border is their geometric mean; below the smallest (unless that is the first)
// and above the largest nothing is known, and the planner is right.
std::vector<Crossover> crossovers(const std::vector<TunedRow>& rows);

}  // namespace tutti::bench
