// Where the calls that streams have reached come into a communicator.
#include <chrono>

#include "base/guard.h"
#include "core/communicator.h"

namespace tutti {

void StreamEntry::close() {
  std::lock_guard lock(mutex_);
  communicator_ = nullptr;
}

bool StreamEntry::post(tutti_request& request, bool is_new) noexcept {
  std::lock_guard lock(mutex_);
  if (communicator_ == nullptr) return false;
  if (is_new) {
    Status said = guarded([&] { return communicator_->gpu_calls()->announce(request); });
    if (!said.ok()) communicator_->break_down(said);
  }
  communicator_->post(request);
  return true;
}

bool StreamEntry::post_on_gpus(const tutti_request& request, const Offer& offer, uint32_t* gate,
                               GpuCalls::Stage stage) noexcept {
  std::lock_guard lock(mutex_);
  if (communicator_ == nullptr) return false;
  GpuCalls& gpus = *communicator_->gpu_calls();
  Status put = guarded([&] { return gpus.put_reached(request, offer, gate, std::move(stage)); });
  if (!put.ok()) communicator_->break_down(put);
  return put.ok();
}

void StreamEntry::reached(Sequence sequence) noexcept {
  if (unreached_of(sequence).fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  std::lock_guard lock(mutex_);
  all_reached_.notify_all();
}

bool StreamEntry::await_reached(Sequence sequence, int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  return all_reached_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return unreached(sequence) == 0; });
}

StreamOrder& StreamEntry::order_of(Sequence sequence, DeviceModule& module) {
  std::unique_ptr<StreamOrder>& order = of(sequence).order;
  if (order == nullptr) order = module.make_order();
  return *order;
}

bool StreamEntry::is_quiet() {
  Sequenced& collectives = of(Sequence::kCollectives);
  std::lock_guard lock(collectives.mutex);
  if (collectives.order == nullptr) return true;
  auto done = collectives.order->is_done();
  return done.ok() && *done;
}

Status StreamEntry::look_at_device() {
  for (Sequenced& each : sequences_) {
    std::unique_lock lock(each.mutex, std::try_to_lock);
    if (lock && each.order != nullptr) TUTTI_TRY(each.order->is_done().status());
  }
  return {};
}

bool StreamEntry::has_calls() {
  if (unreached() > 0) return true;
  std::lock_guard lock(mutex_);
  GpuCalls* gpu = communicator_ == nullptr ? nullptr : communicator_->gpu_calls();
  return gpu != nullptr && !gpu->are_done();
}

void StreamEntry::wake() noexcept {
  std::lock_guard lock(mutex_);
  if (communicator_ != nullptr) communicator_->wake();
}

void StreamEntry::break_down(const Status& why) noexcept {
  std::lock_guard lock(mutex_);
  if (communicator_ != nullptr) communicator_->break_down(why);
}

}  // namespace tutti
