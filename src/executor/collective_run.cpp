#include "executor/collective_run.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace

void CollectiveRun::prepare(const std::vector<Program>& programs) {
  if (channels_.size() < programs.size()) channels_.resize(programs.size());
  done_.resize(channels_.size());
  size_t peers = 0;
  for (size_t i = 0; i < programs.size(); ++i) {
    channels_[i].prepare(programs[i]);
    peers += programs[i].peers.size();
  }
  polled_.reserve(peers);
}

void CollectiveRun::start(const std::vector<Program>& programs, const Call& call, Peers& peers) {
  active_ = programs.size();
  has_begun_ = false;
  polled_.clear();
  for (size_t i = 0; i < active_; ++i) {
    channels_[i].start(programs[i], call, peers, static_cast<int>(i));
    done_[i] = false;
    for (int32_t rank : programs[i].peers) {
      Peer* peer = peers[rank].get();
      if (peer->needs_poll() && std::find(polled_.begin(), polled_.end(), peer) == polled_.end()) {
        polled_.push_back(peer);
      }
    }
  }
}

Result<Progress> CollectiveRun::advance() {
  // What a rank sends at once does not wait until it has looked for what has come.
  if (std::exchange(has_begun_, true)) {
    for (Peer* peer : polled_) peer->poll();
  }
  bool all_done = true;
  bool moved = false;
  for (size_t i = 0; i < active_; ++i) {
    if (done_[i]) continue;
    Progress progress = TUTTI_TRY(channels_[i].advance());
    done_[i] = progress == Progress::kDone;
    all_done = all_done && done_[i];
    moved = moved || progress != Progress::kBlocked;
  }
  if (all_done) {
    for (Peer* peer : polled_) peer->give_back_buffers();
    return Progress::kDone;
  }
  // Who sleeps now would not be woken for what a link has taken since it was armed.
  for (Peer* peer : polled_) moved = peer->take_handed() || moved;
  return moved ? Progress::kMoved : Progress::kBlocked;
}

int CollectiveRun::waiting_for() const {
  for (size_t i = 0; i < active_; ++i) {
    if (!done_[i] && channels_[i].waiting_for() >= 0) return channels_[i].waiting_for();
  }
  return -1;
}

uint64_t CollectiveRun::foreign_signature() const {
  for (size_t i = 0; i < active_; ++i) {
    if (channels_[i].foreign_signature() != 0) return channels_[i].foreign_signature();
  }
  return 0;
}

size_t CollectiveRun::scratch_bytes() const {
  size_t bytes = 0;
  for (const ChannelRun& channel : channels_) bytes += channel.scratch_bytes();
  return bytes;
}

bool Waiter::idle() {
  constexpr uint32_t kRoundsPerClock = 32;
  if (idle_rounds_++ == 0) since_ = Clock::now();
  int64_t waited_ns = 0;
  bool yields = policy_.spin_ns == 0;
  if (yields || idle_rounds_ % kRoundsPerClock == 0) {
    waited_ns = std::chrono::nanoseconds(Clock::now() - since_).count();
    yields = waited_ns >= policy_.spin_ns;
  }
  if (waited_ns >= policy_.spin_ns + policy_.yield_ns) return true;
  if (yields) {
    sched_yield();
  } else {
    pause_cpu();
  }
  return false;
}

}  // namespace tutti
