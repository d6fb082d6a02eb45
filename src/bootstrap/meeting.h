// Who has arrived at the meeting point, and whether they agree. A value without sockets.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "bootstrap/messages.h"

namespace tutti::bootstrap {

class Meeting {
 public:
  // Takes a rank in. An error ends the meeting for everyone: its sentence says which ranks differ in what.
  Status add(const Hello& hello, Clock::time_point now = Clock::now());

  bool empty() const { return members_.empty(); }
  bool complete() const { return !empty() && members_.size() == static_cast<size_t>(nranks()); }
  int nranks() const { return members_.empty() ? 0 : members_.begin()->second.nranks; }
  const Hello& member(int rank) const { return members_.at(rank); }

  // When the first of the members stops waiting, a little early so that the answer still reaches it; max() while empty.
  Clock::time_point deadline() const { return deadline_; }
  std::vector<int> absent() const;
  // "ranks 3, 5 of 8 have not joined after 60000 ms: ...".
  Status missing() const;
  // What `rank` needs to know when the meeting is complete.
  Neighbours neighbours_for(int rank, uint64_t job, const Secret& token) const;

 private:
  std::map<int, Hello> members_;
  Clock::time_point deadline_ = Clock::time_point::max();
  int64_t timeout_ms_ = 0;  // of the member whose deadline comes first
};

// "rank 3", "ranks 3, 5, 6": at most sixteen written out, then "and 4 more".
std::string list_ranks(const std::vector<int>& ranks);

}  // namespace tutti::bootstrap
