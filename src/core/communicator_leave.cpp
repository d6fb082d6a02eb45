// How a rank leaves: it may not take its memory away before its peers have done with it.
#include <algorithm>

#include "base/log.h"
#include "core/communicator.h"

namespace tutti {
namespace {

constexpr int kPollMs = 20;
// Who keeps the others waiting is said after so long.
constexpr int64_t kSilentMs = 10'000;
// After a failure some peers may never hear a goodbye.
constexpr int64_t kFailedLeaveMs = 1000;

}  // namespace

Status Communicator::finalize() {
  if (finalized_.exchange(true)) return {};
  std::optional<Deadline> deadline;
  {
    Turn turn = take_turn();
    Waiter waiter(wait_policy_);
    while (pending_.load(std::memory_order_acquire) > 0) {
      if (advance() == Advance::kBlocked && waiter.idle()) sleep();
    }
    close_streams();
    if (gpu_calls_) gpu_calls_->tell_ended();
    // This rank's calls have deadlines of their own.
    deadline = Deadline::after_ms(config_.timeout_ms);
    if (!part_from_peers(*deadline)) deadline.reset();  // who was late has been said
    if (size_t lost = direct_->inbox().kept(); lost > 0 && !failure_.happened()) {
      log_warn("messages to this rank that were never received: {}, {}", lost, direct_->inbox().kept_text());
    }
  }
  context_->engine->remove(this);
  if (control_ == nullptr) return failure_.status();
  if (failure_.happened()) deadline.reset();
  // Memory of GPUs goes when no other rank has it open.
  bool has_memory = gpu_calls_ != nullptr && !failure_.happened() && gpu_calls_->are_done();
  if (has_memory) gpu_calls_->close_memory();
  Status met = control_->leave(deadline, Deadline::after_ms(deadline ? config_.bootstrap_timeout_ms : kFailedLeaveMs));
  if (!met.ok()) log_warn("{} within {} ms; leaving", met.message(), config_.timeout_ms);
  if (has_memory && met.ok() && !failure_.happened()) gpu_calls_->free_memory();
  return failure_.status();
}

// Says goodbye to every peer, and to those that have asked this rank, or after leave() to all, and unless this rank has
// failed waits for the peers' goodbyes. A peer says it when it has completed its calls: it then has all that this rank
// sent, and neither reads nor stores here any more. Links move on meanwhile, because they may still hold what peers
// wait for. False: at the deadline one had not said it, and was named.
bool Communicator::part_from_peers(Deadline deadline) {
  // Whoever waits for a rank that failed hears why.
  Goodbye own{.calls = failure_.happened() ? UINT64_MAX : calls_, .is_early = has_left_.load() ? 1U : 0U};
  std::vector<int> connected;
  std::map<int, Goodbye> goodbyes;
  for (int rank = 0; rank < nranks_; ++rank) {
    if (links_->peers()[rank] != nullptr) connected.push_back(rank);
  }
  for (int rank : connected) {
    goodbyes[rank] = own;
    goodbyes[rank].messages = direct_->sent_to(rank);
  }
  direct_->stop_connecting();  // whoever wants a link from here on gets a goodbye
  {
    std::lock_guard lock(answers_mutex_);
    parting_ = own;
    said_ = goodbyes;
    for (int rank : askers_) goodbyes.try_emplace(rank, own);
  }
  // Those that call it later are told why it has gone, as far as this reaches them before the news that it has.
  for (int rank = 0; own.is_early != 0 && rank < nranks_; ++rank) {
    if (rank != rank_) goodbyes.try_emplace(rank, own);
  }
  for (auto& [rank, goodbye] : goodbyes) control_->send(rank, kGoodbye, std::as_bytes(std::span(&goodbye, 1)));
  Deadline silent = Deadline::after_ms(kSilentMs);
  bool said = false;
  auto waits_on = [&] {
    return std::find_if(connected.begin(), connected.end(), [&](int rank) { return !has_said_all(rank); });
  };
  for (;;) {
    waits_.clear();
    Links::Armed armed = links_->arm(waits_);
    for (int rank : connected) links_->peers()[rank]->poll();
    if (!failure_.happened()) (void)direct_->advance();  // messages that this rank has not received are counted
    auto missing = waits_on();
    if (failure_.happened() || missing == connected.end()) return true;
    if (deadline.passed()) {
      log_warn("rank {} did not finalize within {} ms; leaving", *missing, config_.timeout_ms);
      return false;
    }
    if (!said && silent.passed()) log_warn("waiting for rank {} to finalize", *missing);
    said = said || silent.passed();
    waits_.sleep(kPollMs);
  }
}

}  // namespace tutti
