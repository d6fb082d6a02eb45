// CollectiveRun: one call on all its channels, and how a thread waits for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/deadline.h"
#include "base/progress.h"
#include "base/status.h"
#include "executor/channel_run.h"

namespace tutti {

class CollectiveRun {
 public:
  // Allocates for these Programs (one per channel), so that start() and advance() take only from the BufferPool.
  void prepare(const std::vector<Program>& programs);
  // Everything outlives the run.
  void start(const std::vector<Program>& programs, const Call& call, Peers& peers);
  Result<Progress> advance();
  // Whether advance() would still find nothing to do: cheap, for those who ask all the time.
  bool still_waits() const { return active_ == 1 && polled_.empty() && channels_[0].still_waits(); }
  // After an advance() that failed because a peer makes another call: its signature. Else 0.
  uint64_t foreign_signature() const;
  size_t scratch_bytes() const;
  // A peer that a channel waits for, -1 if none.
  int waiting_for() const;

 private:
  std::vector<ChannelRun> channels_;
  size_t active_ = 0;               // channels of the current call
  std::vector<bool> done_;
  bool has_begun_ = false;          // the current call
  std::vector<Peer*> polled_;       // peers of the current call whose links need polling
};

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

}  // namespace tutti
