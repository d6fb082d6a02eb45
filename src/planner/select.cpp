// Chooses an algorithm: predicts all, takes the fastest, and says why.
#include <algorithm>
#include <array>
#include <bit>
#include <climits>

#include "base/config.h"
#include "planner/algorithms/algorithms.h"
#include "planner/cost.h"
#include "planner/shape.h"
#include "topology/units.h"

namespace tutti {
namespace {

// Of each collective in order of preference when predictions are about equal: those first that lose most of their
// copies when the callers' memory happens to be mapped, which a Plan must not depend on.
constexpr std::array kAlgorithms = {
    &kAllReduceDirectTwoShot, &kAllReduceDirectOneShot, &kAllReduceRecursiveDoubling, &kAllReduceDoubleBinaryTree,
    &kAllReduceBinomialTree, &kAllReduceHierarchical, &kAllReduceRing,
    &kReduceDirectTwoShot, &kReduceDirect, &kReduceBinomialTree, &kReduceHierarchical, &kReduceChain,
    &kBroadcastDirect, &kBroadcastBinomialTree, &kBroadcastHierarchical, &kBroadcastChain,
    &kAllGatherDirect, &kAllGatherBruck, &kAllGatherHierarchical, &kAllGatherRing,
    &kReduceScatterDirect, &kReduceScatterBinomialTree, &kReduceScatterHierarchical, &kReduceScatterRing,
    &kAllToAllDirect, &kAllToAllPairwise,
    &kGatherDirect, &kGatherBinomialTree, &kGatherSequential,
    &kScatterDirect, &kScatterBinomialTree, &kScatterSequential,
    &kBarrierDirect, &kBarrierDissemination,
};

bool serves(const Algorithm& algorithm, Collective collective) {
  return algorithm.collective == without_counts(collective);
}

// Ranks cannot carry blocks of others whose counts they do not know.
bool knows_counts(const Algorithm& algorithm, Collective collective) {
  return !algorithm.traits.carries_for_others || !has_private_counts(collective);
}

constexpr uint64_t kAboutEqualPercent = 5;
constexpr uint64_t kLeastMappedBytes = 32 * 1024;

constexpr uint64_t kSmallestClassBytes = 64;

// The request that stands for all of its class.
Request representative(Request request) {
  uint64_t element_bytes = size_of(request.datatype);
  request.count = size_class_bytes(request.size_bytes()) / element_bytes;
  return request;
}

// With the shape of its Plan, where it is admitted.
struct Weighed {
  Candidate candidate;
  PlanShape shape;
};

bool ranks_before(const Weighed& x, const Weighed& y) {
  const Candidate &a = x.candidate, &b = y.candidate;
  if (a.admitted != b.admitted) return a.admitted;
  return a.admitted && a.predicted_ns < b.predicted_ns;
}

// The fastest, or of those that are about as fast the one that gains most where memory can be mapped: calls of so much
// are looked at for that (Communicator::find_windows()).
const Candidate& best_of(const std::vector<Candidate>& candidates, const Request& request, bool mapped) {
  if (!mapped || request.size_bytes() < kLeastMappedBytes) return candidates.front();
  uint64_t fastest_ns = candidates.front().predicted_ns;
  for (const Algorithm* algorithm : kAlgorithms) {
    if (!serves(*algorithm, request.collective)) continue;
    for (const Candidate& candidate : candidates) {
      bool about_equal =
          candidate.admitted && candidate.predicted_ns - fastest_ns <= fastest_ns / 100 * kAboutEqualPercent;
      if (about_equal && candidate.algorithm == algorithm->name) return candidate;
    }
  }
  return candidates.front();
}

std::string described(const Candidate& candidate) {
  return fmt::format("{} ({}: {})", candidate.algorithm, time_text(candidate.predicted_ns), candidate.reason);
}

enum class Ground : uint8_t { kPredicted, kMeasured, kWished };

std::string reason_for(const std::vector<Candidate>& candidates, const Candidate& chosen, Ground ground) {
  const Candidate& fastest = candidates.front();
  bool is_fastest = &chosen == &fastest;
  bool wished = ground == Ground::kWished;
  if (wished && is_fastest) return fmt::format("the user asked for {}, and it is the fastest", described(chosen));
  if (wished) return fmt::format("the user asked for {}; {} would be faster", described(chosen), described(fastest));
  if (ground == Ground::kMeasured) {
    return fmt::format("{} was measured fastest by `tutti bench --tune`; predicted fastest is {}", described(chosen),
                       is_fastest ? "the same" : described(fastest));
  }
  if (!is_fastest) {
    return fmt::format("{} is within {} % of {} and gains more where memory is mapped", described(chosen),
                       kAboutEqualPercent, described(fastest));
  }
  if (candidates.size() < 2 || !candidates[1].admitted)
    return fmt::format("{} is the only one that can run", described(chosen));
  bool is_tie = chosen.predicted_ns == candidates[1].predicted_ns;
  return fmt::format("{} is {} {}", described(chosen), is_tie ? "preferred to the equally fast" : "faster than",
                     described(candidates[1]));
}

// Whether contributions are combined by the tree over rank indices, but for the order of the only two.
bool keeps_rank_tree(const Algorithm& algorithm, int nranks) {
  switch (algorithm.traits.rank_tree) {
    case RankTree::kAlways: return true;
    case RankTree::kPowersOfTwo: return std::has_single_bit(static_cast<unsigned>(nranks));
    case RankTree::kNever: break;
  }
  return nranks <= 2;
}

// "" or why not.
std::string admit(const Algorithm& algorithm, const Topology& topology, const Request& request, const Tuning& tuning) {
  bool keeps_order = keeps_rank_tree(algorithm, topology.nranks());
  if (request.op == kOrderedFunction && algorithm.traits.rank_tree == RankTree::kNever) keeps_order = false;
  bool needs_order = tuning.deterministic || request.op == kOrderedFunction;
  if (needs_order && reduces(request.collective) && !keeps_order) return "it does not combine in rank order";
  if (!knows_counts(algorithm, request.collective)) {
    return "ranks would carry blocks of others, whose counts they do not know";
  }
  int64_t ranks = topology.nranks();
  if (without_counts(request.collective) == TUTTI_ALL_TO_ALL && ranks * ranks > INT_MAX) {
    return fmt::format("{} ranks have more blocks for each other than a plan can number", ranks);
  }
  return algorithm.admit(topology, request);
}

bool begins_with_rendezvous(const Topology& topology, const Request& request) {
  uint64_t blocks = 1;
  switch (request.collective) {  // with counts nobody knows where its blocks lie in another rank's output
    case TUTTI_BROADCAST: break;
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
    case TUTTI_ALL_TO_ALL: blocks = static_cast<uint64_t>(topology.nranks()); break;
    default: return false;
  }
  return request.size_bytes() / blocks > kMostBlockBytesWithoutRendezvous && topology.joined_by_rdma();
}

PlanShape shape_of(const Algorithm& algorithm, const Topology& topology, const Request& request,
                   const Tuning& tuning) {
  PlanShape shape = algorithm.shape(topology, request, tuning);
  shape.rendezvous = begins_with_rendezvous(topology, request);
  return shape;
}

// Fastest first, then those not admitted.
std::vector<Weighed> weigh_all(const Topology& topology, const Request& request, const Tuning& tuning) {
  std::vector<Weighed> all;
  for (const Algorithm* algorithm : kAlgorithms) {
    if (!serves(*algorithm, request.collective)) continue;
    Weighed weighed{{.algorithm = std::string(algorithm->name),
                     .summary = algorithm->summary,
                     .reason = admit(*algorithm, topology, request, tuning)},
                    {}};
    Candidate& candidate = weighed.candidate;
    if (candidate.reason.empty()) {
      weighed.shape = shape_of(*algorithm, topology, request, tuning);
      Prediction prediction = predict_quicker(algorithm->predict, {topology, request, tuning}, weighed.shape);
      candidate.admitted = true;
      candidate.predicted_ns = prediction.ns;
      candidate.reason = std::move(prediction.bound);
    }
    all.push_back(std::move(weighed));
  }
  // Stable: of equals the one listed first.
  std::stable_sort(all.begin(), all.end(), ranks_before);
  return all;
}

}  // namespace

std::span<const Algorithm* const> algorithms() { return kAlgorithms; }

const Algorithm* find_algorithm(Collective collective, std::string_view name) {
  auto found = std::find_if(kAlgorithms.begin(), kAlgorithms.end(), [&](auto* each) {
    return serves(*each, collective) && knows_counts(*each, collective) && each->name == name;
  });
  return found == kAlgorithms.end() ? nullptr : *found;
}

Status check_algorithm(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Algorithm* algorithm : kAlgorithms) {
    if (std::find(names.begin(), names.end(), algorithm->name) == names.end()) names.push_back(algorithm->name);
  }
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return {};
  std::string_view near = nearest(name, names);
  if (near.empty())
    return error(Code::kInvalidArgument, "no algorithm is called \"{}\"; there are {}", name, fmt::join(names, ", "));
  return error(Code::kInvalidArgument, "no algorithm is called \"{}\"; did you mean \"{}\"?", name, near);
}

Tuning tuning_from(const Config& config) {
  Tuning tuning;
  tuning.algorithm = config.algorithm;
  tuning.deterministic = config.deterministic != 0;
  tuning.channels = static_cast<int>(config.channels);
  tuning.workers = static_cast<int>(config.workers);
  tuning.slice_bytes = static_cast<uint64_t>(config.slice_bytes);
  tuning.max_slice_bytes = config.staging_slot_bytes();
  return tuning;
}

uint64_t size_class_bytes(uint64_t size_bytes) {
  if (size_bytes > uint64_t{1} << 63) return UINT64_MAX;
  return std::max(kSmallestClassBytes, std::bit_ceil(size_bytes));
}

Result<Choice> choose(const Topology& topology, const Request& asked, const Tuning& tuning) {
  if (topology.nranks() == 0) return error(Code::kInvalidArgument, "cannot plan for a topology without ranks");
  bool is_op = is_valid(asked.op) || is_own(asked.op);
  if (!is_valid(asked.datatype) || !is_op || !is_valid(asked.collective)) {
    return error(Code::kInvalidArgument, "cannot plan for an unknown collective, datatype or operation");
  }
  TUTTI_TRY(check_algorithm(tuning.algorithm));

  Request request = representative(asked);
  Choice choice;
  std::vector<Weighed> weighed = weigh_all(topology, request, tuning);
  for (const Weighed& each : weighed) choice.candidates.push_back(each.candidate);
  const Candidate& best = best_of(choice.candidates, request, all_mapped(topology));
  auto chosen = choice.candidates.cbegin() + (&best - choice.candidates.data());
  auto named = [&](std::string_view name) {
    return std::find_if(choice.candidates.cbegin(), choice.candidates.cend(),
                        [&](const Candidate& candidate) { return candidate.algorithm == name; });
  };
  Ground ground = Ground::kPredicted;
  auto measured = named(measured_algorithm(tuning.measured, request.collective, request.size_bytes()));
  if (!tuning.algorithm.empty()) {
    chosen = named(tuning.algorithm);
    ground = Ground::kWished;
  } else if (measured != choice.candidates.cend() && measured->admitted) {
    chosen = measured;
    ground = Ground::kMeasured;
  }
  if (chosen == choice.candidates.cend()) {
    std::vector<std::string_view> names;
    for (const Candidate& candidate : choice.candidates) names.push_back(candidate.algorithm);
    return error(Code::kInvalidUsage, "{} has no algorithm {}; it has {}", name_of(request.collective),
                 tuning.algorithm, fmt::join(names, ", "));
  }
  if (!chosen->admitted) {
    return error(Code::kInvalidUsage, "{} cannot run {} here: {}", chosen->algorithm, name_of(request.collective),
                 chosen->reason);
  }
  const Algorithm* algorithm = find_algorithm(request.collective, chosen->algorithm);
  PlanShape& shape = weighed[static_cast<size_t>(chosen - choice.candidates.cbegin())].shape;
  choice.plan = Plan(std::move(shape), algorithm->generate);
  choice.predicted_ns = chosen->predicted_ns;
  choice.reason = reason_for(choice.candidates, *chosen, ground);
  return choice;
}

}  // namespace tutti
