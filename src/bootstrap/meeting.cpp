#include "bootstrap/meeting.h"

#include <algorithm>

#include "bootstrap/routing.h"

namespace tutti::bootstrap {

std::string list_ranks(const std::vector<int>& ranks) {
  constexpr size_t kShown = 16;
  size_t shown = std::min(ranks.size(), kShown);
  std::string text =
      fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks.begin(), ranks.begin() + shown, ", "));
  if (ranks.size() > shown) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

Status Meeting::add(const Hello& hello, Clock::time_point now) {
  if (!members_.empty() && hello.nranks != nranks()) {
    const Hello& first = members_.begin()->second;
    return error(Code::kInvalidUsage,
                 "rank {} ({}) was started with {} ranks, rank {} ({}) with {}: start all with the same number",
                 hello.rank, hello.who(), hello.nranks, first.rank, first.who(), first.nranks);
  }
  if (auto other = members_.find(hello.rank); other != members_.end()) {
    return error(Code::kInvalidUsage, "two processes claim rank {}: {} and {}: give each process its own rank",
                 hello.rank, other->second.who(), hello.who());
  }
  members_.emplace(hello.rank, hello);
  // An absurd wait of a peer must not overflow the clock.
  int64_t wait_ms = std::min<int64_t>(hello.timeout_ms, 30LL * 24 * 3600 * 1000);
  Clock::time_point ends = now + std::chrono::milliseconds(wait_ms - std::min<int64_t>(wait_ms / 10, 250));
  if (ends < deadline_) {
    deadline_ = ends;
    timeout_ms_ = hello.timeout_ms;
  }
  return {};
}

std::vector<int> Meeting::absent() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < nranks(); ++rank) {
    if (!members_.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

Status Meeting::missing() const {
  std::vector<int> absent = this->absent();
  return error(Code::kTimeout,
               "{} of {} {} not joined after {} ms: check that {} started and can reach the meeting point, or raise "
               "TUTTI_BOOTSTRAP_TIMEOUT_MS",
               list_ranks(absent), nranks(), absent.size() == 1 ? "has" : "have", timeout_ms_,
               absent.size() == 1 ? "it has" : "they have");
}

Neighbours Meeting::neighbours_for(int rank, uint64_t job, const Secret& token) const {
  Neighbours neighbours{job, token, {}};
  for (int other : neighbours_of(rank, nranks())) neighbours.hellos.push_back(member(other));
  return neighbours;
}

}  // namespace tutti::bootstrap
