// monitoredBarrier: a barrier that says which ranks have not come. It goes through the store, so that a rank that is
// late costs the group nothing but the error.
#include <algorithm>

#include "backend.h"

namespace tutti_torch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kVerdict = "verdict";
constexpr const char* kPassed = "passed";
// What rank 0 may take, its own deadline apart, to say who has come.
constexpr std::chrono::milliseconds kGrace{5000};

bool wait_for_key(c10d::Store& store, const std::string& key, Clock::time_point deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  try {
    store.wait({key}, std::max(left, std::chrono::milliseconds(1)));
    return true;
  } catch (const std::exception&) {
    return store.check({key});
  }
}

std::string late_text(const std::vector<int>& late, int64_t timeout_ms) {
  std::string ranks;
  for (int rank : late) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  return c10::str(late.size() == 1 ? "Rank " : "Ranks ", ranks, " failed to pass monitoredBarrier in ", timeout_ms,
                  " ms");
}

// What rank 0 has said. It may have come late but in time, and then waits for others until its own deadline.
std::string wait_for_verdict(c10d::Store& store, const std::string& prefix, std::chrono::milliseconds timeout) {
  std::string verdict = prefix + kVerdict;
  auto deadline = Clock::now() + timeout;
  if (wait_for_key(store, verdict, deadline)) return store.get_to_str(verdict);
  if (!store.check({prefix + "0"})) return "rank 0 did not come in time";
  if (wait_for_key(store, verdict, deadline + timeout + kGrace)) return store.get_to_str(verdict);
  return c10::str("rank 0 came, and then said nothing for ", (timeout + kGrace).count(), " ms");
}

// Which ranks did not come in time: the first, or all.
std::vector<int> find_late(c10d::Store& store, const std::string& prefix, int size, Clock::time_point deadline,
                           bool wait_all_ranks) {
  std::vector<int> late;
  for (int rank = 1; rank < size; ++rank) {
    if (wait_for_key(store, prefix + std::to_string(rank), deadline)) continue;
    late.push_back(rank);
    if (!wait_all_ranks) break;
  }
  return late;
}

}  // namespace

void TuttiBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  auto timeout = options.timeout == c10d::kUnsetTimeout ? options_->timeout : options.timeout;
  // A store may outlive the group and be given to the next one.
  std::string prefix = c10::str("monitored_barrier/", communicator_->name(), "/", monitored_barriers_.fetch_add(1), "/");
  store_->set(prefix + std::to_string(rank_), kPassed);
  if (rank_ != 0) {
    std::string said = wait_for_verdict(*store_, prefix, timeout);
    TORCH_CHECK_WITH(DistBackendError, said == kPassed, "Rank ", rank_,
                     " successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0: ",
                     said, ". Please check rank 0's logs for faulty rank.");
    return;
  }
  if (timeout.count() <= 0 && size_ > 1) {
    std::string text = c10::str("Rank 0 timed out in monitoredBarrier after ", timeout.count(), " ms");
    store_->set(prefix + kVerdict, text);
    TORCH_CHECK_WITH(DistBackendError, false, text, ".");
  }
  std::vector<int> late = find_late(*store_, prefix, size_, Clock::now() + timeout, wait_all_ranks);
  std::string text = late.empty() ? kPassed : late_text(late, timeout.count());
  store_->set(prefix + kVerdict, text);
  TORCH_CHECK_WITH(DistBackendError, late.empty(), text, ".");
}

}  // namespace tutti_torch
