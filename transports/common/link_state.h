// The part of a Link that outlives its first error: who is at the other end, and what went wrong. Any thread.
#pragma once

#include <atomic>
#include <string>

#include "base/failure.h"
#include "base/status.h"

namespace tutti {

class LinkState {
 public:
  LinkState(int rank, int peer, std::string link) : place_{.rank = rank, .peer = peer, .link = std::move(link)} {}

  int peer() const { return place_.peer; }
  int rank() const { return place_.rank; }
  // Of two ranks the higher one dials and the lower one accepts.
  bool dials() const { return place_.rank > place_.peer; }

  // Ok while the Link works; otherwise its first error, the same ever after.
  bool ok() const { return !failure_.happened() && !aborted(); }
  Status check();
  // Records the first error and returns it: "rank 3: what".
  Status fail(Code code, std::string_view what);
  // An error of one call that leaves the Link as it was: the caller's mistake.
  Status refuse(Code code, std::string_view what) const;

  // True the first time.
  bool abort() noexcept { return !aborted_.exchange(true, std::memory_order_acq_rel); }
  bool aborted() const noexcept { return aborted_.load(std::memory_order_acquire); }

 private:
  ErrorPlace place_;
  Failure failure_;
  std::atomic<bool> aborted_{false};
};

}  // namespace tutti
