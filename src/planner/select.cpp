// Chooses an algorithm: predicts all, takes the fastest, and says why.
#include <algorithm>
#include <array>
#include <bit>

#include "base/config.h"
#include "planner/algorithms.h"
#include "planner/planner.h"

namespace tutti {
namespace {

constexpr std::array<const Algorithm*, 5> kAlgorithms = {&kDirectOneShot, &kDirectTwoShot, &kRing, &kDoubleBinaryTree,
                                                         &kRecursiveDoubling};

constexpr uint64_t kSmallestClassBytes = 64;

// The request that stands for all of its class.
Request representative(Request request) {
  uint64_t element_bytes = size_of(request.datatype);
  request.count = size_class_bytes(request.size_bytes()) / element_bytes;
  return request;
}

std::string text_of(uint64_t ns) {
  if (ns < 1'000) return fmt::format("{} ns", ns);
  if (ns < 1'000'000) return fmt::format("{}.{} us", ns / 1'000, ns / 100 % 10);
  return fmt::format("{}.{} ms", ns / 1'000'000, ns / 100'000 % 10);
}

bool ranks_before(const Candidate& a, const Candidate& b) {
  if (a.admitted != b.admitted) return a.admitted;
  return a.admitted && a.predicted_ns < b.predicted_ns;
}

std::string reason_for(const std::vector<Candidate>& candidates, const Candidate& chosen, bool forced) {
  std::string bound = fmt::format("{}, bound by {}", text_of(chosen.predicted_ns), chosen.reason);
  if (forced) {
    const Candidate& best = candidates.front();
    if (&best == &chosen) return fmt::format("forced by the option \"algorithm\", and the fastest: {}", bound);
    return fmt::format("forced by the option \"algorithm\": {}; {} would take {}", bound, best.algorithm, text_of(best.predicted_ns));
  }
  if (candidates.size() < 2 || !candidates[1].admitted) return fmt::format("the only one that can run: {}", bound);
  const Candidate& next = candidates[1];
  return fmt::format("fastest: {}; next is {} with {}, bound by {}", bound, next.algorithm, text_of(next.predicted_ns), next.reason);
}

Status unknown_algorithm(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Algorithm* algorithm : kAlgorithms) names.push_back(algorithm->name);
  std::string_view near = nearest(name, names);
  if (near.empty()) return error(Code::kInvalidArgument, "no algorithm is called \"{}\"; there are {}", name, fmt::join(names, ", "));
  return error(Code::kInvalidArgument, "no algorithm is called \"{}\"; did you mean \"{}\"?", name, near);
}

}  // namespace

std::span<const Algorithm* const> algorithms() { return kAlgorithms; }

const Algorithm* find_algorithm(std::string_view name) {
  auto found = std::find_if(kAlgorithms.begin(), kAlgorithms.end(), [&](auto* each) { return each->name == name; });
  return found == kAlgorithms.end() ? nullptr : *found;
}

uint64_t size_class_bytes(uint64_t size_bytes) {
  if (size_bytes > uint64_t{1} << 63) return UINT64_MAX;
  return std::max(kSmallestClassBytes, std::bit_ceil(size_bytes));
}

Result<Choice> choose(const Topology& topology, const Request& asked, const Tuning& tuning) {
  if (topology.nranks() == 0) return error(Code::kInvalidArgument, "cannot plan for a topology without ranks");
  if (!is_valid(asked.datatype) || !is_valid(asked.op) || !is_valid(asked.collective)) {
    return error(Code::kInvalidArgument, "cannot plan for an unknown collective, datatype or operation");
  }
  bool forced = !tuning.algorithm.empty();
  if (forced && find_algorithm(tuning.algorithm) == nullptr) return unknown_algorithm(tuning.algorithm);

  Request request = representative(asked);
  Choice choice;
  for (const Algorithm* algorithm : kAlgorithms) {
    if (algorithm->collective != request.collective) continue;
    Candidate candidate{std::string(algorithm->name), false, 0, algorithm->admit(topology, request)};
    if (candidate.reason.empty()) {
      Prediction prediction = algorithm->predict({topology, request}, algorithm->shape(topology, request, tuning));
      candidate = {candidate.algorithm, true, prediction.ns, std::move(prediction.bound)};
    }
    choice.candidates.push_back(std::move(candidate));
  }
  // Stable: of equals the one listed first.
  std::stable_sort(choice.candidates.begin(), choice.candidates.end(), ranks_before);

  auto chosen = choice.candidates.begin();
  if (forced) {
    chosen = std::find_if(choice.candidates.begin(), choice.candidates.end(), [&](auto& c) { return c.algorithm == tuning.algorithm; });
    TUTTI_CHECK(chosen != choice.candidates.end());
  }
  if (!chosen->admitted) {
    return error(Code::kInvalidUsage, "{} cannot run {} here: {}", chosen->algorithm, name_of(request.collective), chosen->reason);
  }
  const Algorithm* algorithm = find_algorithm(chosen->algorithm);
  choice.plan = Plan(algorithm->shape(topology, request, tuning), algorithm->generate);
  choice.predicted_ns = chosen->predicted_ns;
  choice.reason = reason_for(choice.candidates, *chosen, forced);
  return choice;
}

}  // namespace tutti
