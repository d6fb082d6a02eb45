#include "core/communicator.h"

#include <algorithm>

#include "base/log.h"
#include "core/guard.h"

namespace tutti {
namespace {

constexpr int kSleepMs = 100;  // upper bound of one sleep, so that deadlines and failures are looked at

Status null_check(const CallArguments& arguments) {
  if (arguments.count == 0 || (arguments.input != nullptr && arguments.output != nullptr)) return {};
  return error(Code::kInvalidArgument, "{}: {} is NULL", name_of(arguments.collective),
               arguments.input == nullptr ? "send_buffer" : "recv_buffer");
}

Status overlap_check(const CallArguments& arguments, uint64_t size_bytes) {
  if (arguments.input == arguments.output || size_bytes == 0) return {};
  auto in = reinterpret_cast<uintptr_t>(arguments.input), out = reinterpret_cast<uintptr_t>(arguments.output);
  if (in + size_bytes <= out || out + size_bytes <= in) return {};
  return error(Code::kInvalidArgument, "{}: the buffers overlap; use two separate ones, or the same one for both",
               name_of(arguments.collective));
}

}  // namespace

Status Communicator::check(const CallArguments& arguments) const {
  if (finalized_) return error(Code::kInvalidUsage, "this communicator is finalized: it takes no more calls");
  if (!is_valid(arguments.collective)) {
    return error(Code::kInvalidArgument, "there is no collective with the number {}",
                 static_cast<int>(arguments.collective));
  }
  if (!is_valid(arguments.datatype)) {
    return error(Code::kInvalidArgument, "there is no datatype with the number {}",
                 static_cast<int>(arguments.datatype));
  }
  if (!is_valid(arguments.op)) {
    return error(Code::kInvalidArgument, "there is no operation with the number {}", static_cast<int>(arguments.op));
  }
  if (!is_defined_for(arguments.op, arguments.datatype)) {
    return error(Code::kInvalidArgument, "{}: {} is for integers, not for {}; choose another operation or datatype",
                 name_of(arguments.collective), name_of(arguments.op), name_of(arguments.datatype));
  }
  uint64_t size_bytes = 0;
  if (__builtin_mul_overflow(arguments.count, size_of(arguments.datatype), &size_bytes) || size_bytes > INT64_MAX) {
    return error(Code::kInvalidArgument, "{} of {} elements does not fit into memory", name_of(arguments.collective),
                 arguments.count);
  }
  TUTTI_TRY(null_check(arguments));
  return overlap_check(arguments, size_bytes);
}

Status Communicator::run(const CallArguments& arguments) {
  tutti_request request;
  request.arguments = arguments;
  Turn turn = take_turn();
  // Without calls of others in front nobody but this thread ever sees the request.
  if (has_calls()) {
    TUTTI_TRY(start(request));
  } else {
    TUTTI_TRY(admit(request));
    adopt(request);
  }
  drive(request);
  return std::move(request.result);
}

Status Communicator::admit(tutti_request& request) {
  if (failure_.happened()) return failure_.status();
  TUTTI_TRY(check(request.arguments));
  request.communicator = this;
  return {};
}

Status Communicator::start(tutti_request& request) {
  TUTTI_TRY(context_->engine->start());
  TUTTI_TRY(admit(request));
  request.queued = true;
  pending_.fetch_add(1, std::memory_order_acq_rel);
  std::lock_guard lock(queue_mutex_);
  (last_ == nullptr ? first_ : last_->next) = &request;
  last_ = &request;
  return {};
}

tutti_request* Communicator::dequeue() {
  std::lock_guard lock(queue_mutex_);
  tutti_request* request = first_;
  if (request == nullptr) return nullptr;
  first_ = request->next;
  if (first_ == nullptr) last_ = nullptr;
  return request;
}

std::unique_lock<std::mutex> Communicator::try_turn() {
  if (wanted_.load(std::memory_order_acquire) > 0) return {};
  return std::unique_lock(turn_, std::try_to_lock);
}

// The engine first says that it sleeps and then looks at the turn; who has the turn gives it up and then looks whether
// the engine sleeps. One of the two sees the other.
std::unique_lock<std::mutex> Communicator::turn_before_sleep() {
  engine_sleeps_.exchange(true, std::memory_order_seq_cst);
  auto turn = try_turn();
  if (turn) engine_sleeps_.store(false, std::memory_order_relaxed);
  return turn;
}

Communicator::Turn::~Turn() {
  if (!lock_) return;
  lock_.unlock();
  if (communicator_.has_calls() && communicator_.engine_sleeps_.exchange(false, std::memory_order_seq_cst)) {
    communicator_.context_->engine->ring();
  }
}

Communicator::Turn Communicator::take_turn() {
  std::unique_lock lock(turn_, std::try_to_lock);
  if (!lock) {
    wanted_.fetch_add(1, std::memory_order_acq_rel);
    context_->engine->ring();
    lock.lock();
    wanted_.fetch_sub(1, std::memory_order_acq_rel);
  }
  return Turn(*this, std::move(lock));
}

void Communicator::wait(tutti_request& request) {
  if (request.done.load(std::memory_order_acquire)) return;
  Turn turn = take_turn();
  drive(request);
}

bool Communicator::test(tutti_request& request) {
  if (request.done.load(std::memory_order_acquire)) return true;
  if (Turn turn(*this, try_turn()); turn) advance();
  return request.done.load(std::memory_order_acquire);
}

void Communicator::drive(tutti_request& request) {
  Waiter waiter(wait_policy_);
  while (!request.done.load(std::memory_order_relaxed)) {
    if (advance() != Advance::kBlocked) {
      waiter.reset();
    } else if (waiter.idle()) {
      sleep();
    }
  }
}

void Communicator::sleep() {
  waits_.clear();
  Advance last = Advance::kBlocked;
  Links::Armed armed = before_sleep(waits_, last);
  if (last == Advance::kBlocked) waits_.sleep(kSleepMs);
}

Links::Armed Communicator::before_sleep(WaitSet& waits, Advance& last) noexcept {
  Links::Armed armed;
  Status prepared = guarded([&]() -> Status {
    look_at_delay();
    armed = links_->arm(waits);
    for (auto& peer : links_->peers()) {
      if (peer && !peer->needs_poll()) peer->poll();  // to see whether it is still there, and what it shares
    }
    return {};
  });
  if (!prepared.ok()) fail(std::move(prepared), true);
  last = advance();  // something may have come between the announcement and the sleep
  return armed;
}

Advance Communicator::advance() noexcept {
  Advance result = Advance::kMoved;
  Status stepped = guarded([&]() -> Status {
    result = step();
    return {};
  });
  if (!stepped.ok()) fail(std::move(stepped), true);  // the next step completes the call with it
  return result;
}

Advance Communicator::step() {
  if (active_ == nullptr) {
    tutti_request* request = dequeue();
    if (request == nullptr) return Advance::kIdle;
    if (!adopt(*request)) return Advance::kMoved;
  }
  if (failure_.happened()) {
    give_up();
    return Advance::kMoved;
  }
  if (connecting_) return connect();
  if (run_.still_waits()) return Advance::kBlocked;
  auto progress = run_.advance();
  if (!progress.ok()) {
    fail_on_link(std::move(progress).status());
    give_up();
    return Advance::kMoved;
  }
  if (*progress == Progress::kDone) complete({});
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
  complete(std::move(begun));
  return false;
}

Status Communicator::begin(tutti_request& request) {
  const CallArguments& arguments = request.arguments;
  call_.size_bytes = arguments.count * size_of(arguments.datatype);
  slow_since_.reset();
  connecting_ = false;
  if (nranks_ == 1) {
    if (arguments.input != arguments.output) copy(arguments.output, arguments.input, call_.size_bytes, Store::kCached);
    return {};
  }
  prepared_ = TUTTI_TRY(plan_with_turn(arguments));
  CallRecord record{.number = ++calls_,
                    .collective = arguments.collective,
                    .datatype = arguments.datatype,
                    .op = arguments.op,
                    .root = arguments.root,
                    .count = arguments.count,
                    .plan_digest = prepared_->plan_digest};
  record_.publish(record);
  call_.signature = record.signature();
  if (prepared_->connected) return launch();
  connecting_ = true;
  return {};
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
    run_.prepare(prepared_->programs, prepared_->plan.shape().slice_bytes);
    prepared_->connected = true;
    connecting_ = false;
    return launch();
  }));
  return Advance::kMoved;
}

// Hands the active call to the executor.
Status Communicator::launch() {
  bind();
  TUTTI_TRY(find_windows());
  run_.start(prepared_->programs, call_, links_->peers());
  return {};
}

void Communicator::bind() {
  const CallArguments& arguments = active_->arguments;
  const PlanShape& shape = prepared_->plan.shape();
  call_.shape = &shape;
  call_.datatype = arguments.datatype;
  call_.op = arguments.op;
  call_.input = arguments.input;
  call_.output = arguments.output;
  call_.partition = Partition(arguments.count, static_cast<uint32_t>(size_of(arguments.datatype)), shape.channels,
                              shape.chunks, shape.slice_bytes);
  call_.options = data_path_;
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
  if (Turn turn(*this, try_turn()); turn) take_back_forgotten();
}

void Communicator::take_back_forgotten() {
  if (!has_forgotten_.load(std::memory_order_acquire)) return;
  std::lock_guard lock(forgotten_mutex_);
  for (uint64_t key : forgotten_) links_->forget(key);
  forgotten_.clear();
  has_forgotten_.store(false, std::memory_order_release);
}

// Where the caller's buffers lie in memory that peers can map.
Status Communicator::find_windows() {
  take_back_forgotten();
  call_.input_window = call_.output_window = {};
  if (call_.size_bytes <= kInlineBytes) return {};  // travels in messages
  if (auto region = context_->memory.find(call_.input, call_.size_bytes)) {
    call_.input_window = TUTTI_TRY(links_->share(*region, call_.input));
  }
  if (auto region = context_->memory.find(call_.output, call_.size_bytes)) {
    call_.output_window = TUTTI_TRY(links_->share(*region, call_.output));
  }
  return {};
}

void Communicator::complete(Status result) {
  tutti_request* request = std::exchange(active_, nullptr);
  request->result = std::move(result);
  waits_for_.store(-1, std::memory_order_relaxed);
  if (request->queued) pending_.fetch_sub(1, std::memory_order_acq_rel);
  request->done.store(true, std::memory_order_release);  // the owner may free it from here on
}

// Completes the active call with the failure. The caller then has its memory back, so first peers must be out of it and
// know that they may not come again; the thread that has set the failure may be about to tell them, or not.
void Communicator::give_up() {
  links_->abort();
  links_->await_accesses();
  complete(guarded([this] { return failure_.status(); }));
}

Result<Prepared*> Communicator::plan_for(const CallArguments& arguments) {
  Turn turn = take_turn();
  return plan_with_turn(arguments);
}

Result<Prepared*> Communicator::plan_with_turn(const CallArguments& arguments) {
  return plans_->get({.collective = arguments.collective,
                      .datatype = arguments.datatype,
                      .op = arguments.op,
                      .root = arguments.root,
                      .count = arguments.count});
}

}  // namespace tutti
