#include "core/communicator.h"

#include <sched.h>

#include <algorithm>

#include "base/log.h"
#include "base/guard.h"
#include "base/watch.h"

namespace tutti {
namespace {

constexpr int kSleepMs = 100;  // upper bound of one sleep, so that deadlines and failures are looked at

}  // namespace

Status Communicator::run(const CallArguments& arguments) {
  bool is_direct = is_point_to_point(arguments.collective);
  TUTTI_TRY(await_streams(sequence_of(arguments.collective)));
  // There, telling of the call may wait for others, which may wait for who has the turn.
  if (gpu_calls_ && !is_direct) return run_beside_driver(arguments);
  Turn turn = drive_turn();
  if (!turn) return run_beside_driver(arguments);
  if (is_direct) return run_direct(arguments);
  if (has_calls()) return run_after_others(arguments);
  if (is_again(arguments)) return run_again();
  // Nobody but this thread ever sees the request.
  TUTTI_TRY(admit_again(collective_, arguments));
  adopt(collective_.request);
  drive(collective_.request);
  return std::move(collective_.request.result);
}

Status Communicator::run_after_others(const CallArguments& arguments) {
  tutti_request request;
  request.arguments = arguments;
  TUTTI_TRY(start(request));
  drive(request);
  return std::move(request.result);
}

Status Communicator::run_beside_driver(const CallArguments& arguments) {
  tutti_request request;
  request.arguments = arguments;
  TUTTI_TRY(start(request));
  progress_alone();
  wait(request);
  return std::move(request.result);
}

Status Communicator::check_usable() const {
  if (failure_.happened()) return failure_.status();
  if (finalized_) return error(Code::kInvalidUsage, "this communicator is finalized: it takes no more calls");
  return {};
}

Status Communicator::admit(tutti_request& request) {
  TUTTI_TRY(check_usable());
  TUTTI_TRY(resolve_op(request.arguments, request.own_op));
  TUTTI_TRY(keep_counts(request.arguments, rank_, nranks_, request.counts));
  request.geometry = TUTTI_TRY(geometry_of(request.arguments, rank_, nranks_));
  TUTTI_TRY(check_buffers(request.arguments, request.geometry));
  request.communicator = this;
  return {};
}

Status Communicator::admit_again(Blocking& call, const CallArguments& arguments) {
  tutti_request& request = call.request;
  request.done.store(false, std::memory_order_relaxed);
  request.is_repeated = call.may_be_repeated && request.arguments == arguments;
  if (request.is_repeated) return check_usable();
  call.may_be_repeated = false;
  request.arguments = arguments;
  TUTTI_TRY(admit(request));
  // What has arrays or an operation of the program is looked at every time, and a profiler is to see every call.
  bool may_be_known = !has_counts(arguments.collective) && !has_profiler();
  call.may_be_repeated = may_be_known && request.arguments == arguments;
  return {};
}

Status Communicator::start(tutti_request& request) {
  TUTTI_TRY(await_streams(sequence_of(request.arguments.collective)));
  TUTTI_TRY(context_->engine->start());
  TUTTI_TRY(admit(request));
  TUTTI_TRY(announce(request));
  enqueue(request);
  return {};
}

Status Communicator::announce(tutti_request& request) {
  if (gpu_calls_ == nullptr || is_point_to_point(request.arguments.collective)) return {};
  Status said = gpu_calls_->announce(request);
  if (!said.ok()) break_down(said);
  return said;
}

Status Communicator::prepare(tutti_request& request) {
  TUTTI_TRY(admit(request));
  if (nranks_ == 1 || is_point_to_point(request.arguments.collective)) return {};
  Turn turn = take_turn();
  return plan_with_turn(request.arguments, request.geometry).status();
}

Status Communicator::start_prepared(tutti_request& request) {
  TUTTI_TRY(await_streams(sequence_of(request.arguments.collective)));
  TUTTI_TRY(context_->engine->start());
  TUTTI_TRY(check_usable());
  request.done.store(false, std::memory_order_relaxed);
  request.next = nullptr;
  TUTTI_TRY(announce(request));
  enqueue(request);
  return {};
}

void Communicator::enqueue(tutti_request& request) {
  request.queued = true;
  pending_.fetch_add(1, std::memory_order_acq_rel);
  std::lock_guard lock(queue_mutex_);
  Queue& queue = is_point_to_point(request.arguments.collective) ? directs_ : collectives_;
  queue.requests.push(request);
  queue.size.fetch_add(1, std::memory_order_release);
}

tutti_request* Communicator::dequeue(Queue& queue) {
  if (queue.size.load(std::memory_order_acquire) == 0) return nullptr;
  std::lock_guard lock(queue_mutex_);
  queue.size.fetch_sub(1, std::memory_order_relaxed);
  return queue.requests.pop();
}

std::unique_lock<TurnLock> Communicator::try_turn() {
  if (turn_.is_wanted()) return {};
  return std::unique_lock(turn_, std::try_to_lock);
}

// The engine first says that it sleeps and then looks at the turn; who has the turn gives it up and then looks whether
// the engine sleeps. One of the two sees the other.
std::unique_lock<TurnLock> Communicator::turn_before_sleep() {
  engine_sleeps_.exchange(true, std::memory_order_seq_cst);
  heavy_fence();
  auto turn = try_turn();
  if (turn) engine_sleeps_.store(false, std::memory_order_relaxed);
  return turn;
}

Communicator::Turn::~Turn() {
  if (!lock_) return;
  lock_.unlock();
  communicator_.after_turn();
  communicator_.wake_engine();
  // Another one of the threads that wait may drive now.
  if (communicator_.context_->completions.has_waiters()) communicator_.context_->completions.announce();
}

Communicator::Turn Communicator::take_turn() {
  turn_.lock([this] { context_->engine->ring(); });
  return Turn(*this, std::unique_lock(turn_, std::adopt_lock));
}

Communicator::Turn Communicator::drive_turn() {
  bool drives = turn_.drive([this] { context_->engine->ring(); });
  return Turn(*this, drives ? std::unique_lock(turn_, std::adopt_lock) : std::unique_lock<TurnLock>());
}

void Communicator::wait(std::span<tutti_request* const> requests) {
  auto is_done = [](const tutti_request* request) { return request->done.load(std::memory_order_acquire); };
  bool is_told = false;  // the driver, which may sleep without knowing of the requests
  for (auto next = requests.begin();;) {
    next = std::find_if_not(next, requests.end(), is_done);
    if (next == requests.end()) return;
    if (Turn turn = drive_turn(); turn) {
      // Who gives the turn up with calls left wakes the engine.
      do drive(**next);
      while (++next != requests.end() && !turn_.is_wanted());
      continue;
    }
    if (!std::exchange(is_told, true)) progress_alone();
    const tutti_request* awaited = *next;
    context_->completions.wait([&] { return is_done(awaited) || !turn_.is_driven(); });
  }
}

// A driver that sleeps has looked for calls before, and keeps the engine out.
void Communicator::progress_alone() {
  context_->engine->add(this);
  full_fence();
  if (turn_.is_driven()) links_->ring();
}

bool Communicator::test(tutti_request& request) {
  if (request.done.load(std::memory_order_acquire)) return true;
  if (Turn turn(*this, try_turn()); turn) advance();
  return request.done.load(std::memory_order_acquire);
}

void Communicator::drive(tutti_request& request) {
  Waiter waiter(wait_policy_);
  bool is_direct = is_point_to_point(request.arguments.collective);
  while (!request.done.load(std::memory_order_relaxed)) {
    Advance advanced = advance(Patience::kWaits);
    look_between_steps();
    if (advanced != Advance::kBlocked) {
      waiter.reset();
      continue;
    }
    if (wait_policy_.spin_ns > 0) {
      is_direct ? direct_->watch(request) : watch_while([this] { return run_.still_waits(); });
      if (links_->shares_cpu_with(is_direct ? request.arguments.peer : awaited_rank())) ::sched_yield();
    } else {
      links_->even_out(topology_.hosts[topology_.ranks[rank_].host].ranks.size());
    }
    if (waiter.idle()) sleep();
  }
}

void Communicator::sleep() {
  waits_.clear();
  Advance last = Advance::kBlocked;
  Links::Armed armed = before_sleep(waits_, last);
  if (last == Advance::kMoved) return;
  waits_.sleep(kSleepMs, [this] { return look() == Advance::kMoved; });
}

// Also for what comes to a rank that has no request for it.
Advance Communicator::look() noexcept {
  direct_lively_ = std::max(direct_lively_, 1);
  return advance();
}

Links::Armed Communicator::before_sleep(WaitSet& waits, Advance& last) noexcept {
  Links::Armed armed;
  Status prepared = guarded([&]() -> Status {
    look_at_delay();
    look_at_direct_delays_before_sleep(waits);
    armed = links_->arm(waits);
    for (auto& peer : links_->peers()) {
      if (peer) peer->poll();  // to see whether it is still there, and what it shares
    }
    return {};
  });
  if (!prepared.ok()) fail(std::move(prepared), true);
  // Something may have come between the announcement and the sleep.
  last = look();
  return armed;
}

// The clock, which may be a system call, is read at one of many steps: most take well below a microsecond. The longest
// do some slices of a large call, so many of which are short beside usual deadlines.
void Communicator::look_between_steps() noexcept {
  constexpr uint32_t kSteps = 64;
  constexpr auto kEvery = std::chrono::milliseconds(100);
  if (steps_ - steps_at_clock_ < kSteps) [[likely]] return;
  steps_at_clock_ = steps_;
  auto now = Clock::now();
  if (now - looked_between_ < kEvery) return;
  looked_between_ = now;
  Status looked = guarded([&]() -> Status {
    look_at_delay();
    look_at_direct_delays();
    return {};
  });
  if (!looked.ok()) fail(std::move(looked), true);
}

Advance Communicator::advance(Patience patience) noexcept {
  Advance result = Advance::kMoved;
  Status stepped = guarded([&]() -> Status {
    result = step(patience);
    return {};
  });
  if (!stepped.ok()) fail(std::move(stepped), true);  // the next step completes the call with it
  return result;
}

Advance Communicator::step(Patience patience) {
  take_back_forgotten();
  Advance direct = step_direct();
  Advance collective = step_collectives(patience);
  if (direct == Advance::kIdle) return collective;
  return collective == Advance::kMoved ? collective : direct;
}

Advance Communicator::step_collectives(Patience patience) {
  if (active_ == nullptr) {
    tutti_request* request = dequeue(collectives_);
    if (request == nullptr) return Advance::kIdle;
    if (!adopt(*request)) return Advance::kMoved;
  }
  if (failure_.happened()) {
    give_up();
    return Advance::kMoved;
  }
  if (connecting_) return connect();
  if (run_.still_waits()) return Advance::kBlocked;
  auto progress = run_.advance(patience);
  if (!progress.ok()) {
    fail_on_link(std::move(progress).status());
    give_up();
    return Advance::kMoved;
  }
  if (*progress == Progress::kDone) {
    hand_over_result();
    complete_active({});
  }
  return *progress == Progress::kBlocked ? Advance::kBlocked : Advance::kMoved;
}

// Makes `request` the active call; false when it is complete at once.
bool Communicator::adopt(tutti_request& request) {
  active_ = &request;
  return settle(guarded([&] { return failure_.happened() ? failure_.status() : begin(request); }));
}

// What became of a step towards the executor; false when the call is complete with it.
bool Communicator::settle(Status begun) {
  if (begun.ok() && nranks_ > 1) return true;
  if (begun.code() == Code::kRemote && !failure_.happened()) {
    fail_on_link(std::move(begun));
    give_up();
    return false;
  }
  // What only this rank suffers would leave the others waiting for it.
  bool alone = begun.code() == Code::kSystem || begun.code() == Code::kInternal;
  if (alone && nranks_ > 1) fail(begun, true);
  complete_active(std::move(begun));
  return false;
}

// A step towards the links that the active call needs.
Advance Communicator::connect() {
  auto progress = links_->connect(prepared_->peers);
  if (!progress.ok()) {
    fail_on_link(std::move(progress).status());
    give_up();
    return Advance::kMoved;
  }
  if (*progress != Progress::kDone) return *progress == Progress::kBlocked ? Advance::kBlocked : Advance::kMoved;
  settle(guarded([&]() -> Status {
    run_.prepare(prepared_->programs);
    prepared_->connected = true;
    connecting_ = false;
    return launch();
  }));
  return Advance::kMoved;
}

int Communicator::awaited_rank() const {
  return connecting_ ? links_->first_unconnected(prepared_->peers) : run_.waiting_for();
}

void Communicator::forget(uint64_t key) {
  {
    std::lock_guard lock(forgotten_mutex_);
    forgotten_.push_back(key);
    has_forgotten_.store(true, std::memory_order_release);
  }
  heavy_fence();
  after_turn();
}

void Communicator::after_turn() {
  bool had_turn = false;
  // Again where more was forgotten while this had the turn.
  while (has_forgotten_.load(std::memory_order_acquire)) {
    std::unique_lock turn(turn_, std::try_to_lock);
    if (!turn) break;
    take_back_forgotten();
    had_turn = true;
  }
  if (had_turn) wake_engine();  // which may have looked meanwhile
}

void Communicator::wake_engine() {
  if (has_calls() && engine_sleeps_.exchange(false, std::memory_order_seq_cst)) context_->engine->ring();
}

void Communicator::take_back_forgotten() {
  if (!has_forgotten_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(forgotten_mutex_);
  for (uint64_t key : forgotten_) links_->forget(key);
  forgotten_.clear();
  has_forgotten_.store(false, std::memory_order_release);
}

void Communicator::complete_active(Status result) {
  waits_for_.store(-1, std::memory_order_relaxed);
  windows_->let_go();
  complete(*std::exchange(active_, nullptr), std::move(result));
}

void Communicator::complete(tutti_request& request, Status result) {
  request.result = std::move(result);
  // The caller may free them.
  request.input_device.reset();
  request.output_device.reset();
  if (request.profiled) [[unlikely]] tell_end(*std::exchange(request.profiled, std::nullopt), request.result.code());
  bool is_queued = request.queued;
  if (request.arguments.completed != nullptr) request.arguments.completed(request.arguments.context);
  if (is_queued) pending_.fetch_sub(1, std::memory_order_acq_rel);
  auto* completed = request.completed;
  request.done.store(true, std::memory_order_release);  // the owner may free it from here on
  if (completed != nullptr) completed(request);         // which is then its owner
  if (is_queued) context_->completions.announce();
}

// Completes the active call, and all sends and receives, with the failure. The caller then has his memory back, so
// first peers must be out of it and know that they may not come again; the thread that has set the failure may be about
// to tell them, or not.
void Communicator::give_up() {
  links_->abort();
  links_->await_accesses();
  Status why = guarded([this] { return failure_.status(); });
  take_queued_direct();
  direct_->fail_all(why);
  result_ = {};
  if (active_ != nullptr) complete_active(std::move(why));
}

}  // namespace tutti
