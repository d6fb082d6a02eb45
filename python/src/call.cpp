#include "call.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>

#include "blocking.h"

namespace tutti_torch {

using c10::ivalue::Future;

void Call::start(std::span<tutti_call_t> calls) {
  Communicator::Use use(*communicator_, Communicator::Use::For::kCall);
  communicator_->call_started();
  self_ = shared_from_this();
  remaining_.store(calls.size() + 1, std::memory_order_relaxed);  // and one that is completed here
  requests_.reserve(calls.size());
  for (tutti_call_t& call : calls) {
    call.completed = [](void* context) { static_cast<Call*>(context)->one_completed(); };
    call.context = this;
    tutti_request_t* request = nullptr;
    tutti_status_t status = tutti_start(use.comm(), &call, &request);
    if (status != TUTTI_SUCCESS) {
      std::string sentence = communicator_->sentence();
      auto self = self_;
      remaining_.fetch_sub(calls.size() - requests_.size(), std::memory_order_relaxed);
      one_completed();
      requests_.empty() ? wait() : watch();  // those before it may take their time
      raise(status, name_, sentence, timeout_);
    }
    requests_.push_back(request);
  }
  one_completed();
}

// Of a request, by whoever makes progress, before the request can be taken; and once by start().
void Call::one_completed() {
  if (remaining_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  auto& communicator = *communicator_;
  bool is_watched = (flags_.fetch_or(kComplete, std::memory_order_acq_rel) & kWatched) != 0;
  if (is_watched) communicator.watcher().push(shared_from_this());
  communicator.call_completed();
}

void Call::run(const tutti_call_t& call) {
  std::exception_ptr error;
  try {
    Communicator::Use use(*communicator_, Communicator::Use::For::kCall);
    tutti_status_t status = run_blocking(use.comm(), call);
    if (status != TUTTI_SUCCESS) raise(status, name_, communicator_->sentence(), timeout_);
  } catch (...) {
    error = std::current_exception();
  }
  finish(error);
  if (error) std::rethrow_exception(error);
}

void Call::wait() {
  if (finish_if_first()) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kForever, [this] { return state_ == State::kFinished; });
}

std::exception_ptr Call::take_requests() {
  Communicator::Use use(*communicator_, Communicator::Use::For::kWait);
  tutti_status_t first = TUTTI_SUCCESS;
  std::string sentence;
  for (tutti_request_t*& request : requests_) {
    tutti_status_t status = tutti_wait(&request);
    if (status == TUTTI_SUCCESS || first != TUTTI_SUCCESS) continue;
    first = status;
    sentence = communicator_->sentence();
  }
  if (first == TUTTI_SUCCESS) return nullptr;
  try {
    raise(first, name_, sentence, timeout_);
  } catch (...) {
    return std::current_exception();
  }
}

void Call::copy_results() {
  at::NoGradGuard no_grad;
  for (auto& [to, from] : copies_) to.copy_(from);
  if (landing_) landing_->land(static_cast<int64_t>(message_.count) / per_element_);
}

// What hangs on it comes behind a message's copy to its device.
void Call::mark_future(Future& future, const std::exception_ptr& error) const {
  if (error) return future.setError(error);
  std::optional<c10::StreamGuard> on_stream;
  if (landing_) on_stream.emplace(landing_->stream());
  future.markCompleted(at::IValue(outputs_));
}

void Call::finish(std::exception_ptr error) {
  try {
    if (!error && (!copies_.empty() || landing_)) copy_results();
  } catch (...) {
    error = std::current_exception();
  }
  copies_.clear();  // without a lock: to let go of a tensor may take Python's
  kept_.clear();
  if (on_done_) std::exchange(on_done_, nullptr)();
  c10::intrusive_ptr<Future> future;
  std::shared_ptr<Call> self;  // the last thing that goes away
  {
    std::lock_guard lock(mutex_);
    error_ = error;
    state_ = State::kFinished;
    future = future_;
    self = std::move(self_);
    changed_.notify_all();
  }
  if (future) mark_future(*future, error);
}

bool Call::wait_for(Milliseconds timeout) {
  watch();
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return state_ == State::kFinished; });
}

bool Call::finish_if_first() {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kUnderWay) return false;
    state_ = State::kBeingFinished;
  }
  finish(take_requests());
  return true;
}

// The caller may hold Python's lock, which a thread that finishes the call may need: it is not waited for.
bool Call::poll() {
  if ((flags_.load(std::memory_order_acquire) & kComplete) != 0) finish_if_first();
  std::lock_guard lock(mutex_);
  if (state_ != State::kFinished) return false;
  return error_ != nullptr || landing_ == nullptr || landing_->is_done();
}

// As poll().
void Call::watch() {
  int before = flags_.fetch_or(kWatched, std::memory_order_acq_rel);
  if (before == kComplete && !communicator_->watcher().push(shared_from_this())) finish_if_first();
}

c10::intrusive_ptr<Future> Call::future() {
  bool is_finished;
  c10::intrusive_ptr<Future> future;
  {
    std::lock_guard lock(mutex_);
    if (future_) return future_;
    auto devices = landing_ ? std::vector<c10::Device>{landing_->device()} : std::vector<c10::Device>{};
    future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
    future = future_;
    is_finished = state_ == State::kFinished;
  }
  is_finished ? mark_future(*future, error_) : watch();
  return future;
}

std::exception_ptr Call::error() const {
  std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace tutti_torch
