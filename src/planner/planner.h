// The planner: a pure function from (Topology, Request, Tuning) to a Plan, its predicted time and the reasons. All
// ranks evaluate it on identical values and so choose the same Plan.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "base/types.h"
#include "plan/plan.h"
#include "planner/tuning_table.h"
#include "topology/topology.h"

namespace tutti {

// Where only some ranks know the counts, calls are planned as if each block had so many bytes.
inline constexpr uint64_t kUnknownBlockBytes = 256 * 1024;
constexpr uint64_t count_of_unknown_blocks(Datatype datatype, int nranks) {
  return static_cast<uint64_t>(nranks) * (kUnknownBlockBytes / size_of(datatype));
}

// Where RDMA joins all ranks, collectives that move larger blocks than these begin with a rendezvous
// (PlanShape::rendezvous): it costs a latency, and each block may then be put straight into an output.
inline constexpr uint64_t kMostBlockBytesWithoutRendezvous = 256 * 1024;

// Only facts that the API requires to be equal on all ranks.
struct Request {
  Collective collective = TUTTI_ALL_REDUCE;
  Datatype datatype = TUTTI_FLOAT32;
  ReduceOp op = TUTTI_SUM;
  int root = -1;
  // Elements of the larger buffer of a rank: of the vector, or of all ranks' blocks together.
  uint64_t count = 0;

  uint64_t size_bytes() const { return count * size_of(datatype); }
  friend bool operator==(const Request&, const Request&) = default;
};

// The user's wishes, merged over all ranks at bootstrap. Zero or empty: the planner decides.
struct Tuning {
  std::string algorithm;          // force this one
  bool deterministic = false;     // admit only what combines by the tree over rank indices
  int channels = 0;
  int workers = 0;                // threads of each rank that run the channels of large calls
  uint64_t slice_bytes = 0;
  uint64_t max_slice_bytes = 256 * 1024;  // what a staging slot holds
  std::vector<TunedCollective> measured;  // followed where no wish is against it
  friend bool operator==(const Tuning&, const Tuning&) = default;
};

// The options "algorithm", "deterministic", "channels", "workers", "slice_bytes" and "slot_bytes". What was measured is
// the caller's to add.
Tuning tuning_from(const Config& config);

// A rank's arena has streams for so many channels, whatever the user says.
inline constexpr int kUsualChannels = 2;

// Threads of each rank for calls whose size class is kLeastSharedBytes or more, which then have as many channels: 2
// where there are processors for two threads of every rank, else 1, unless `tuning` says otherwise. 1 where not all
// ranks can map each other's memory.
int workers_of(const Topology& topology, const Tuning& tuning);
inline constexpr uint64_t kLeastSharedBytes = 1024 * 1024;  // copying less takes less time than waking a thread

// Errors: no collective has an algorithm of that name (names the nearest); "" is none and right.
Status check_algorithm(std::string_view name);

struct Candidate {
  std::string algorithm;
  std::string_view summary;       // of the algorithm, a few words
  bool admitted = false;
  uint64_t predicted_ns = 0;      // when admitted
  std::string reason;             // why not admitted, or what bounds its time
};

struct Choice {
  Plan plan;
  uint64_t predicted_ns = 0;
  std::vector<Candidate> candidates;  // all of them, fastest first, then those not admitted
  std::string reason;                 // one sentence: why this one
};

// Errors: a forced algorithm that is unknown (names the nearest) or not admitted (says why); a topology without ranks.
Result<Choice> choose(const Topology& topology, const Request& request, const Tuning& tuning);

// Calls of one class share a Plan; the upper bound of the class in bytes: a power of two, 64 at least. A cache key uses
// this and never the count; choose() too decides by it, so that a class has one Plan whichever of its counts came
// first.
uint64_t size_class_bytes(uint64_t size_bytes);

// What an algorithm sees of the world when it predicts its time; all integers, so that all ranks agree.
struct CostInputs {
  const Topology& topology;
  const Request& request;
  const Tuning& tuning;
  bool pulled = false;            // receivers pull private memory, where they can and the messages are large enough
};
struct Prediction {
  uint64_t ns = 0;
  std::string bound;              // what takes most of it: "74 % latency of 3 hops"
};

// On how many ranks an algorithm combines contributions by the one binary tree over rank indices: neighbours first,
// ((0 1) (2 3)) ..., and what has no neighbour is carried up. Then the result's bits do not depend on the algorithm.
enum class RankTree : uint8_t { kNever, kPowersOfTwo, kAlways };

struct AlgorithmTraits {
  RankTree rank_tree = RankTree::kNever;
  // Whether ranks carry data of others, and so must know how much that is.
  bool carries_for_others = false;
};

// One algorithm: one file in algorithms/ defines one of these, and select.cpp lists it.
struct Algorithm {
  std::string_view name;          // unique among those of its collective
  Collective collective;          // also serves the form with counts
  std::string_view summary;       // one line for `tutti plan --explain`
  AlgorithmTraits traits;
  // "" when it can run, else the reason why not.
  std::string (*admit)(const Topology& topology, const Request& request);
  // Channels, chunks, slice size and the two permissions for this request.
  PlanShape (*shape)(const Topology& topology, const Request& request, const Tuning& tuning);
  Plan::Generator generate;
  Prediction (*predict)(const CostInputs& inputs, const PlanShape& shape);
};

// All algorithms, in a fixed order.
std::span<const Algorithm* const> algorithms();
// Of the collective or its form without counts; null when it has none of that name that can run.
const Algorithm* find_algorithm(Collective collective, std::string_view name);

}  // namespace tutti
