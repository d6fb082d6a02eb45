#include "device_call.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <thread>

#include "blocking.h"
#include "device_streams.h"

namespace tutti_torch {
namespace {

using c10::ivalue::Future;

constexpr auto kLook = std::chrono::microseconds(200);  // how often a thread that waits looks at the device

}  // namespace

void DeviceCall::copy_out(at::Tensor to, at::Tensor from) {
  keep(to);
  keep(from);
  copies_.emplace_back(std::move(to), std::move(from));
}

void DeviceCall::set_calls(std::vector<tutti_call_t> calls, std::shared_ptr<const void> what_they_use) {
  calls_ = std::move(calls);
  used_ = std::move(what_they_use);
}

void DeviceCall::put(std::span<const std::shared_ptr<DeviceCall>> calls, const c10::Stream& stream) {
  DeviceCall& first = *calls.front();
  Communicator::Use use(*first.communicator_, Communicator::Use::For::kCall);
  c10::DeviceGuard on_device(stream.device());
  if (c10::Stream current = current_stream(stream.device()); current != stream) {
    c10::Event ready(stream.device_type());
    ready.record(current);
    ready.block(stream);
  }
  auto check = [&](tutti_status_t status) {
    if (status == TUTTI_SUCCESS) return;
    raise(status, first.name_, first.communicator_->sentence(), first.communicator_->timeout());
  };
  void* handle = handle_of(stream);
  bool are_several = calls.size() > 1 || first.calls_.size() > 1;
  if (are_several) check(tutti_group_begin());
  tutti_status_t status = TUTTI_SUCCESS;
  for (const auto& each : calls) {
    for (tutti_call_t& call : each->calls_) {
      call.stream = handle;
      tutti_status_t made = run_blocking(use.comm(), call);
      if (status == TUTTI_SUCCESS) status = made;
    }
  }
  if (are_several) {
    tutti_status_t ended = tutti_group_end();
    if (status == TUTTI_SUCCESS) status = ended;
  }
  check(status);
  for (const auto& each : calls) each->end_on(stream);
}

void DeviceCall::end_on(const c10::Stream& stream) {
  at::NoGradGuard no_grad;
  c10::StreamGuard on_stream(stream);
  for (const at::Tensor& tensor : kept_) record_use(tensor, stream);
  for (auto& [to, from] : copies_) to.copy_(from, /*non_blocking=*/true);
  done_.emplace(stream.device_type());
  done_->record(stream);
  stream_ = stream;
  kept_.clear();
  copies_.clear();
  calls_.clear();
  used_.reset();
}

bool DeviceCall::is_done() const { return (done_ && done_->query()) || error() != nullptr; }

void DeviceCall::join_current_stream() const {
  if (!done_) return;
  c10::Stream current = current_stream(device_);
  if (current != *stream_) done_->block(current);
}

bool DeviceCall::wait_for(Milliseconds timeout) const {
  auto end = std::chrono::steady_clock::now() + timeout;
  while (!is_done()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

std::exception_ptr DeviceCall::error() const {
  tutti_status_t status = communicator_->status();
  if (status == TUTTI_SUCCESS) return nullptr;
  try {
    raise(status, name_, communicator_->sentence(), communicator_->timeout());
  } catch (...) {
    return std::current_exception();
  }
}

// Complete at once: what hangs on it is put behind the call, and waits on the device.
c10::intrusive_ptr<Future> DeviceCall::future() {
  TORCH_CHECK(stream_.has_value(), "tutti: ", name_, ": a future is there when the coalesced calls are started");
  std::lock_guard lock(mutex_);
  if (future_) return future_;
  future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()),
                                        std::vector<c10::Device>{device_});
  if (auto failed = error()) {
    future_->setError(failed);
    return future_;
  }
  c10::StreamGuard on_stream(*stream_);
  future_->markCompleted(at::IValue(outputs_));
  return future_;
}

bool DeviceWork::wait(std::chrono::milliseconds timeout) {
  call_->join_current_stream();
  if (timeout > kNoTimeout && !call_->wait_for(timeout)) {
    C10_THROW_ERROR(DistBackendError, c10::str("tutti: ", call_->name(), ": Timed out waiting ", timeout.count(),
                                               "ms in Work.wait(); the call itself goes on until its own deadline"));
  }
  if (auto error = call_->error()) std::rethrow_exception(error);
  return true;
}

}  // namespace tutti_torch
