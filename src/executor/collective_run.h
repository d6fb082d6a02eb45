// CollectiveRun: one call on all its channels, by one thread or several, and how a thread waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/progress.h"
#include "base/status.h"
#include "executor/channel_run.h"
#include "executor/crew.h"

namespace tutti {

// How long a wait spins, then yields the core to other ranks, before it sleeps.
struct WaitPolicy {
  int64_t spin_ns = 0;
  int64_t yield_ns = 0;
};

// The phases of one wait: call idle() each time nothing moved, reset() when something did.
class Waiter {
 public:
  explicit Waiter(WaitPolicy policy) : policy_(policy) {}
  void reset() { idle_rounds_ = 0; }
  // Spins or yields a little; true when it is time to sleep.
  bool idle();

 private:
  WaitPolicy policy_;
  uint32_t idle_rounds_ = 0;
  Clock::time_point since_{};
};

// Whether a step may take as long as a wait does, because its caller has nothing else to do.
enum class Patience : uint8_t { kNone, kWaits };

// With helpers, and a caller who waits for it, a large call whose peers' links need no polling runs in two modes. All
// threads take channels and drive each of them until it is done or has waited for as long as `policy` allows; then the
// caller goes on alone, in small steps, until several channels can go on again.
class CollectiveRun {
 public:
  // From now on large calls are shared with so many helpers, which start with the first of them and run on `cpus`.
  void share_with(int helpers, WaitPolicy policy, std::vector<int> cpus) {
    helpers_ = helpers;
    policy_ = policy;
    cpus_ = std::move(cpus);
  }
  // Allocates for these Programs (one per channel), so that start() and advance() take only from the BufferPool.
  void prepare(const std::vector<Program>& programs);
  // Everything outlives the run.
  void start(const std::vector<Program>& programs, const Call& call, Peers& peers);
  // The same call once more: nothing that start() was given has changed but the signature.
  void start_again();
  // Whether the last call was one that was made before and went by what was noted of that; start_again() and finish()
  // then make it once more.
  bool repeats() const { return active_ == 1 && polled_.empty() && channels_[0].repeats(); }
  // True when the call is done, as in most cases. Else advance() goes on. `watches`: it may wait for less than a
  // microsecond.
  bool finish(bool watches);
  Result<Progress> advance(Patience patience = Patience::kNone);
  // Whether advance() would still find nothing to do: cheap, for those who ask all the time.
  bool still_waits() const { return active_ == 1 && polled_.empty() && channels_[0].still_waits(); }
  // After an advance() that failed because a peer makes another call: its signature. Else 0.
  uint64_t foreign_signature() const;
  size_t scratch_bytes() const;
  // A peer that a channel waits for, -1 if none.
  int waiting_for() const;

 private:
  // A channel of the current call.
  struct State {
    bool done = false;
    Status failure;
  };

  Result<Progress> advance_alone();
  void poll_peers();
  bool may_share() const;
  bool is_worth_sharing() const;
  bool advance_together();
  bool drive(size_t channel) noexcept;

  std::vector<ChannelRun> channels_;
  size_t active_ = 0;               // channels of the current call
  std::vector<State> states_;
  const Call* call_ = nullptr;
  const std::vector<Program>* programs_ = nullptr;
  Peers* peers_ = nullptr;
  int helpers_ = 0;
  WaitPolicy policy_;
  std::vector<int> cpus_;
  std::unique_ptr<Crew> crew_;
  bool shares_ = false;             // the current call
  bool alone_ = false;              // it did not help, and nothing has moved since
  bool has_begun_ = false;          // the current call
  std::vector<Peer*> polled_;       // peers of the current call whose links need polling
  uint32_t looks_ = 0;              // at some of them
};

}  // namespace tutti
