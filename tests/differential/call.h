// What one call of a case is, the same on all ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "random.h"
#include "types.h"

namespace differential {

// A communicator that both libraries have, with the same ranks in the same order, and how its calls run.
struct Job {
  tutti_comm_t* comm = nullptr;
  MPI_Comm mpi = MPI_COMM_WORLD;
  int ranks = 1;
  int rank = 0;
  std::string algorithm;  // TUTTI_ALGORITHM, "" where the planner chooses
};

// All of a process: of all ranks, a duplicate of that, and one with the ranks in reverse order.
constexpr size_t kCommunicators = 3;
using Jobs = std::array<Job, kCommunicators>;

enum class InPlace { kNowhere, kEverywhere, kOnSomeRanks };

struct Call {
  const Collective* collective = nullptr;
  const Datatype* datatype = nullptr;
  const Operation* operation = nullptr;
  size_t communicator = 0;  // of Jobs
  int root = 0;
  uint64_t count = 0;
  // Of the forms with counts: of the block of each rank; all_to_all_v: [sender * ranks + receiver].
  std::vector<uint64_t> counts;
  InPlace in_place = InPlace::kNowhere;
  bool exact = false;  // floats are such that no rounding happens before the last one
  uint64_t seed = 0;   // of what each rank draws for itself: values, displacements, memory

  // Whether the bits of floats mean something to what combines them: a function of the program takes them as they are.
  bool reduces_floats() const {
    return collective->reduces && datatype->is_float() && operation->function == nullptr;
  }
};

struct Case {
  std::vector<Call> calls;  // 1 to 12, which are in flight together
  bool is_group = false;    // they are made inside tutti_group_begin() and tutti_group_end()
  int rounds = 1;           // how often all of them are made, on other data
};

// Case `number`, alike on all ranks.
Case draw_case(uint64_t seed, uint64_t number, const Job& job);

// A single one of any kind; `random` is in the same state on all ranks.
Call draw_call(Random& random, const Job& job);

// "", ", on a duplicate", ...
const char* place_text(size_t communicator);

// "all_reduce float16 sum count 33, values that round, in place".
std::string described(const Call& call);

}  // namespace differential
