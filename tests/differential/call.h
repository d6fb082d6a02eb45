// What one call of a case is, the same on all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "types.h"

namespace differential {

// What all cases of a process have in common.
struct Job {
  int ranks = 1;
  int rank = 0;
  std::string algorithm;      // TUTTI_ALGORITHM, "" where the planner chooses
  bool passes_partial = false;  // that algorithm may round partial results to the datatype
};

enum class InPlace { kNowhere, kEverywhere, kOnSomeRanks };

struct Call {
  const Collective* collective = nullptr;
  const Datatype* datatype = nullptr;
  const Operation* operation = nullptr;
  int root = 0;
  uint64_t count = 0;
  // Of the forms with counts: of the block of each rank; all_to_all_v: [sender * ranks + receiver].
  std::vector<uint64_t> counts;
  InPlace in_place = InPlace::kNowhere;
  bool exact = false;  // floats are such that no rounding happens before the last one
  uint64_t seed = 0;   // of what each rank draws for itself: values, displacements, memory

  bool reduces_floats() const { return collective->reduces && datatype->is_float(); }
};

// The calls of case `number`, which are in flight together: 1 to 6.
std::vector<Call> draw_case(uint64_t seed, uint64_t number, const Job& job);

// "all_reduce float16 sum count 33, values that round, in place".
std::string described(const Call& call);

}  // namespace differential
