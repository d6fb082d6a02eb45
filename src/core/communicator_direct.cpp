// Sends and receives: how they are run beside the collectives, and what is said when they fail.
#include <algorithm>

#include "core/communicator.h"
#include "base/guard.h"

namespace tutti {
namespace {

// What a rank waits for is told to others after that long.
constexpr auto kSlowAfter = std::chrono::milliseconds(50);
// Some microseconds of waiting.
constexpr int kLivelySteps = 256;
constexpr uint32_t kUnservedSteps = 256;
// So often a rank looks at what many requests wait for.
constexpr int kLookEveryMs = 5;
constexpr size_t kFewRequests = 32;

}  // namespace

void Communicator::make_direct() {
  auto done = [this](tutti_request& request, Status result) {
    if (std::exchange(told_slow_direct_, false)) {
      slow_direct_.publish(CallRecord());
      waits_for_.store(-1, std::memory_order_relaxed);
    }
    complete(request, std::move(result));
  };
  auto ask = [this](int rank) { control_->send(rank, kConnect, {}); };
  asked_ranks_.resize(nranks_);
  direct_ = std::make_unique<PointToPoint>(rank_, *links_, context_->memory, data_path_,
                                           PointToPoint::Events{.complete = done, .ask_for_link = ask});
}

void Communicator::post_direct(tutti_request& request) {
  if (has_profiler()) [[unlikely]] tell_profiler(request, 0, "");
  Status posted = guarded([&]() -> Status {
    direct_->post(request);
    return {};
  });
  if (posted.ok()) return;
  fail(posted, true);
  complete(request, std::move(posted));
}

Status Communicator::run_direct(const CallArguments& arguments) {
  Blocking& call = arguments.collective == TUTTI_SEND ? send_ : receive_;
  TUTTI_TRY(admit_again(call, arguments));
  bool is_first = !has_calls() && !is_asked_for_link_.load(std::memory_order_relaxed) && !has_profiler();
  using Now = PointToPoint::Now;
  Now came = is_first ? direct_->run_now(call.request, wait_policy_.spin_ns > 0) : Now::kNothing;
  if (came == Now::kDone) return {};
  if (came == Now::kNothing) {
    take_queued_direct();  // they came before it
    post_direct(call.request);
  }
  drive(call.request);
  return std::move(call.request.result);
}

Status Communicator::run_both(const CallArguments& send, const CallArguments& receive) {
  TUTTI_TRY(await_streams(Sequence::kSends));
  TUTTI_TRY(await_streams(Sequence::kReceives));
  Turn turn = drive_turn();
  if (!turn) return run_both_beside_driver(send, receive);
  TUTTI_TRY(admit_again(send_, send));
  TUTTI_TRY(admit_again(receive_, receive));
  take_queued_direct();
  post_direct(receive_.request);
  post_direct(send_.request);
  drive(send_.request);
  drive(receive_.request);
  return std::move(send_.request.result.ok() ? receive_.request.result : send_.request.result);
}

Status Communicator::run_both_beside_driver(const CallArguments& send, const CallArguments& receive) {
  tutti_request sent, received;
  sent.arguments = send;
  received.arguments = receive;
  TUTTI_TRY(context_->engine->start());
  TUTTI_TRY(admit(received));
  TUTTI_TRY(admit(sent));
  enqueue(received);
  enqueue(sent);
  progress_alone();
  wait(received);
  wait(sent);
  return std::move(sent.result.ok() ? received.result : sent.result);
}

void Communicator::take_queued_direct() {
  while (tutti_request* request = dequeue(directs_)) post_direct(*request);
}

bool Communicator::should_serve_direct() const {
  return direct_->is_busy() || direct_lively_ > 0 || steps_ % kUnservedSteps == kUnservedSteps - 1;
}

// A rank without requests of its own looks at what others send when it is about to sleep, for a while after something
// has come, and else now and then.
Advance Communicator::step_direct() {
  take_queued_direct();
  bool should_serve = should_serve_direct();
  ++steps_;
  if (!should_serve) return Advance::kIdle;
  Advance served = serve_direct();
  direct_lively_ = served == Advance::kMoved ? kLivelySteps : std::max(0, direct_lively_ - 1);
  return served;
}

// Takes and sends what there is, whether this rank has requests for it or not.
Advance Communicator::serve_direct() {
  if (failure_.happened()) {
    if (!direct_->is_busy()) return Advance::kIdle;
    give_up();
    return Advance::kMoved;
  }
  if (is_asked_for_link_.load(std::memory_order_acquire)) {
    std::lock_guard lock(answers_mutex_);
    for (int rank : ask_for_link_) direct_->connect_to(rank);
    ask_for_link_.clear();
    is_asked_for_link_.store(false, std::memory_order_relaxed);
  }
  auto progress = direct_->advance();
  if (progress.ok()) return *progress == Progress::kBlocked ? Advance::kBlocked : Advance::kMoved;
  if (progress.status().code() == Code::kRemote) {
    await_verdict(progress.status().place().peer);
    Status early = direct_early_leavers();
    fail(early.ok() ? std::move(progress).status() : std::move(early), true);
  } else {
    fail(std::move(progress).status(), true);
  }
  give_up();
  return Advance::kMoved;
}

// Once is enough: a rank that leaves says so to those that have asked it.
void Communicator::ask_late_ranks(const tutti_request& request) {
  int peer = request.arguments.peer;
  bool is_any = peer == TUTTI_ANY_SOURCE;
  for (int rank = is_any ? 0 : peer; rank < (is_any ? nranks_ : peer + 1); ++rank) {
    if (rank == rank_ || asked_ranks_[rank] || has_said_all(rank)) continue;
    asked_ranks_[rank] = true;
    control_->send(rank, kAskRecord, {});
  }
}

CallRecord Communicator::record_of(const tutti_request& request) const {
  const CallArguments& arguments = request.arguments;
  return {.collective = arguments.collective,
          .datatype = arguments.datatype,
          .root = arguments.peer,
          .count = arguments.count,
          .tag = arguments.tag};
}

// Fails requests that nobody will answer any more, and those that are over their time; tells others what this rank
// waits for.
void Communicator::look_at_direct_delays() {
  if (failure_.happened()) return;
  if (direct_->in_flight().empty()) return;
  auto now = Clock::now();
  direct_looked_ = now;
  for (tutti_request* request : direct_->in_flight()) {
    if (Status early = direct_early_leaver(*request); !early.ok()) return fail(std::move(early), true);
    auto& since = request->transfer.slow_since;
    if (!since) since = now;
    if (now - *since >= kSlowAfter) ask_late_ranks(*request);
    int64_t timeout_ms = request->arguments.timeout_ms > 0 ? request->arguments.timeout_ms : config_.timeout_ms;
    if (now - *since >= std::chrono::milliseconds(timeout_ms)) return fail(direct_lateness(*request, timeout_ms), true);
  }
  const tutti_request& first = *direct_->in_flight().front();
  if (active_ != nullptr || now - *first.transfer.slow_since < kSlowAfter) return;
  waits_for_.store(first.arguments.peer, std::memory_order_relaxed);
  slow_direct_.publish(record_of(first));
  told_slow_direct_ = true;
}

void Communicator::look_at_direct_delays_before_sleep(WaitSet& waits) {
  bool are_many = direct_->in_flight().size() > kFewRequests;
  if (are_many && Clock::now() - direct_looked_ < std::chrono::milliseconds(kLookEveryMs)) {
    return waits.wake_within(kLookEveryMs);
  }
  look_at_direct_delays();
}

// Whether nothing will come from `peer` any more: it makes no more calls, and all that it sent is here.
bool Communicator::has_said_all(int peer) const {
  std::lock_guard lock(answers_mutex_);
  auto said = goodbyes_.find(peer);
  if (said == goodbyes_.end()) return departed_.contains(peer);
  const auto& link = links_->peers()[peer];
  return direct_->taken_from(peer) >= said->second.messages || (link != nullptr && link->is_broken());
}

bool Communicator::has_left_early(int peer) const {
  std::lock_guard lock(answers_mutex_);
  auto said = goodbyes_.find(peer);
  return said != goodbyes_.end() && said->second.is_early != 0;
}

Status Communicator::direct_early_leavers() const {
  for (const tutti_request* request : direct_->in_flight()) TUTTI_TRY(direct_early_leaver(*request));
  return {};
}

// Ok unless nobody can answer the request any more.
Status Communicator::direct_early_leaver(const tutti_request& request) const {
  bool is_receive = request.arguments.collective == TUTTI_RECV;
  if (is_receive && request.transfer.peer >= 0) return {};  // its message is here
  if (request.transfer.settles) return {};
  int peer = request.arguments.peer;
  bool blocks = !request.queued || finalized_;
  bool is_alone = peer == rank_ || (peer == TUTTI_ANY_SOURCE && nranks_ == 1);
  if (is_alone && blocks) {
    return error(Code::kInvalidUsage,
                 "rank {} called {}, which only itself can answer, before it makes the other call; start that one "
                 "first (tutti_start)",
                 rank_, record_of(request).text());
  }
  for (int rank = 0; rank < nranks_; ++rank) {
    if (rank != peer && peer != TUTTI_ANY_SOURCE) continue;
    if (rank == rank_ ? !blocks : !has_said_all(rank)) return {};
  }
  bool is_any = peer == TUTTI_ANY_SOURCE;
  if (!is_any && has_left_early(peer)) {
    return error(Code::kRemote, "rank {} has left the communicator, but rank {} called {}", peer, rank_,
                 record_of(request).text());
  }
  return error(Code::kInvalidUsage,
               "{} finalized, but rank {} called {}, which {} answered; each message takes one send and one receive",
               is_any ? "all other ranks have" : fmt::format("rank {} has", peer), rank_, record_of(request).text(),
               is_any ? "none of them" : "it has not");
}

Status Communicator::direct_lateness(const tutti_request& request, int64_t timeout_ms) {
  Status late = lateness(record_of(request).text(), timeout_ms, request.arguments.peer);
  const Inbox& inbox = direct_->inbox();
  if (request.arguments.collective == TUTTI_SEND || inbox.kept() == 0) return late;
  return error(Code::kTimeout, "{}; here, but not asked for: {}", late.message(), inbox.kept_text());
}

// A rank that makes no more calls says so to those that ask, and whether it does. Otherwise it remembers them.
bool Communicator::answer_with_goodbye(int asker) {
  Goodbye goodbye;
  {
    std::lock_guard lock(answers_mutex_);
    askers_.insert(asker);
    if (!parting_) return false;
    auto said = said_.find(asker);
    goodbye = said != said_.end() ? said->second : *parting_;
  }
  control_->send(asker, kGoodbye, std::as_bytes(std::span(&goodbye, 1)));
  return true;
}

void Communicator::on_link_wanted(int from) {
  {
    std::lock_guard lock(answers_mutex_);
    ask_for_link_.insert(from);
    is_asked_for_link_.store(true, std::memory_order_release);
  }
  links_->ring();
}

}  // namespace tutti
