#include "executor/collective_run.h"

#include <sched.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/guard.h"
#include "base/watch.h"

namespace tutti {

void CollectiveRun::prepare(const std::vector<Program>& programs) {
  if (channels_.size() < programs.size()) channels_.resize(programs.size());
  states_.resize(channels_.size());
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
    states_[i] = {};
    for (int32_t rank : programs[i].peers) {
      Peer* peer = peers[rank].get();
      if (peer->needs_poll() && std::find(polled_.begin(), polled_.end(), peer) == polled_.end()) {
        polled_.push_back(peer);
      }
    }
  }
  programs_ = &programs;
  call_ = &call;
  peers_ = &peers;
  shares_ = may_share();
  alone_ = false;
}

void CollectiveRun::start_again() {
  has_begun_ = false;
  alone_ = false;
  for (size_t i = 0; i < active_; ++i) {
    channels_[i].start_again();
    states_[i].done = false;
    if (!states_[i].failure.ok()) states_[i].failure = {};
  }
}

bool CollectiveRun::finish(bool watches) {
  ChannelRun& channel = channels_[0];
  bool is_done = channel.finish();
  while (!is_done && watches) {
    watch_while([&] { return channel.still_waits(); });
    if (!channel.has_come()) break;
    is_done = channel.finish();
  }
  states_[0].done = is_done;
  return is_done;
}

// A function of the program is not asked to serve several threads at once.
bool CollectiveRun::may_share() const {
  bool has_function = call_->own_op != nullptr && call_->own_op->function != nullptr;
  bool is_large = call_->size_bytes >= call_->options.shared_min_bytes;
  return helpers_ > 0 && active_ > 1 && polled_.empty() && is_large && !has_function;
}

bool CollectiveRun::is_worth_sharing() const {
  size_t ready = 0;
  for (size_t i = 0; i < active_; ++i) ready += !states_[i].done && !channels_[i].still_waits();
  return ready > 1;
}

Result<Progress> CollectiveRun::advance(Patience patience) {
  if (!shares_ || patience == Patience::kNone) return advance_alone();
  bool moved = !alone_ && is_worth_sharing() && advance_together();
  auto progress = advance_alone();
  if (!progress.ok()) return progress;
  moved = moved || *progress == Progress::kMoved;
  alone_ = !moved;
  return *progress == Progress::kBlocked && moved ? Progress::kMoved : *progress;
}

// False when no channel has moved.
bool CollectiveRun::advance_together() {
  if (crew_ == nullptr) crew_ = std::make_unique<Crew>(helpers_, cpus_);
  auto set_shared = [this](bool shared) {
    for (const Program& program : *programs_) {
      for (int32_t rank : program.peers) (*peers_)[rank]->set_shared(shared);
    }
  };
  std::atomic<size_t> next{0};
  std::atomic<bool> moved{false};
  set_shared(true);
  auto work = [&] {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < active_;) {
      if (!states_[i].done && drive(i)) moved.store(true, std::memory_order_relaxed);
    }
  };
  crew_->run(std::ref(work), call_->peers_rest);  // a reference needs no memory of its own
  set_shared(false);
  return moved.load(std::memory_order_relaxed);
}

// Advances one channel until it is done, fails, or waits for too long. Whether it has moved.
bool CollectiveRun::drive(size_t channel) noexcept {
  State& state = states_[channel];
  bool moved = false;
  Waiter waiter(policy_);
  for (;;) {
    Progress progress = Progress::kBlocked;
    state.failure = guarded([&]() -> Status {
      progress = TUTTI_TRY(channels_[channel].advance());
      return {};
    });
    if (!state.failure.ok()) return moved;
    state.done = progress == Progress::kDone;
    if (state.done) return true;
    if (progress == Progress::kMoved) {
      moved = true;
      waiter.reset();
    } else if (waiter.idle()) {
      return moved;
    }
  }
}

// Each look at a link may be a system call. What peers send that nobody waits for yet can stay with them for a while.
void CollectiveRun::poll_peers() {
  constexpr uint32_t kAllEvery = 4;
  bool polls_all = polled_.size() == 1 || active_ > 1 || channels_[0].waiting_for() < 0 || ++looks_ % kAllEvery == 0;
  for (Peer* peer : polled_) {
    if (polls_all || peer->rank() == channels_[0].waiting_for() || !peer->sent_all()) peer->poll();
  }
}

Result<Progress> CollectiveRun::advance_alone() {
  if (active_ == 1 && polled_.empty()) {  // nothing to take turns with
    auto progress = channels_[0].advance();
    states_[0].done = progress.ok() && *progress == Progress::kDone;
    return progress;
  }
  // What a rank sends at once does not wait until it has looked for what has come.
  if (std::exchange(has_begun_, true)) poll_peers();
  bool all_done = true;
  bool moved = false;
  for (size_t i = 0; i < active_; ++i) {
    State& state = states_[i];
    if (state.done) continue;
    if (!state.failure.ok()) return std::move(state.failure);
    Progress progress = TUTTI_TRY(channels_[i].advance());
    state.done = progress == Progress::kDone;
    all_done = all_done && state.done;
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
    if (!states_[i].done && channels_[i].waiting_for() >= 0) return channels_[i].waiting_for();
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
  constexpr uint32_t kRoundsPerClock = 8;
  if (policy_.spin_ns + policy_.yield_ns == 0) return true;  // looking at the clock may be a system call
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
