// DeviceCall: one operation of c10d on tensors of a device, save a receive, which the host waits for (landing.h). It is
// put on a stream; nobody waits on the host.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "communicator.h"

namespace tutti_torch {

class DeviceCall {
 public:
  // `name`: of the operation, for errors; static.
  DeviceCall(std::shared_ptr<Communicator> communicator, const char* name, c10::Device device)
      : communicator_(std::move(communicator)), name_(name), device_(device) {}

  // ---- Before it is put on a stream

  // The stream uses the memory of `tensor`.
  void keep(const at::Tensor& tensor) { kept_.push_back(tensor); }
  // `to` gets what is in `from` when the call is done.
  void copy_out(at::Tensor to, at::Tensor from);
  // What these calls consist of, and what they refer to.
  void set_calls(std::vector<tutti_call_t> calls, std::shared_ptr<const void> what_they_use);
  void set_outputs(std::vector<at::Tensor> outputs) { outputs_ = std::move(outputs); }
  c10::Device device() const { return device_; }
  bool sends() const { return !calls_.empty() && calls_.front().collective == TUTTI_SEND; }

  // Puts calls of one communicator and device on `stream`, which then waits for what the current one has; several are
  // started together. Throws when one is refused: then none was started.
  static void put(std::span<const std::shared_ptr<DeviceCall>> calls, const c10::Stream& stream);

  // ---- Afterwards; any thread

  // Whether the stream is done with it, or the communicator has failed.
  bool is_done() const;
  // Lets the current stream wait for it.
  void join_current_stream() const;
  // Blocks until it is done; false when the time has passed.
  bool wait_for(Milliseconds timeout) const;
  // Null unless the communicator has failed.
  std::exception_ptr error() const;
  c10::intrusive_ptr<c10::ivalue::Future> future();
  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  Communicator& communicator() const { return *communicator_; }
  const char* name() const { return name_; }

 private:
  void end_on(const c10::Stream& stream);

  const std::shared_ptr<Communicator> communicator_;
  const char* const name_;
  const c10::Device device_;
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;
  std::vector<tutti_call_t> calls_;
  std::shared_ptr<const void> used_;  // by them
  std::vector<at::Tensor> outputs_;
  std::optional<c10::Stream> stream_;
  std::optional<c10::Event> done_;

  std::mutex mutex_;  // guards what follows
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// What a program holds of it.
class DeviceWork : public c10d::Work {
 public:
  DeviceWork(int rank, c10d::OpType type, const char* title, const std::optional<std::vector<at::Tensor>>& inputs,
             std::shared_ptr<DeviceCall> call, uint64_t sequence_number)
      : Work(rank, type, title, inputs), call_(std::move(call)), sequence_number_(sequence_number) {}

  bool isCompleted() override { return call_->is_done(); }
  bool isSuccess() const override { return call_->is_done() && call_->error() == nullptr; }
  std::exception_ptr exception() const override { return call_->error(); }
  std::vector<at::Tensor> result() override { return call_->outputs(); }
  void synchronize() override { call_->join_current_stream(); }
  // With a timeout it blocks until the device is done.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override { call_->communicator().abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return call_->future(); }
  uint64_t getSequencenumber() const override { return sequence_number_; }

  const std::shared_ptr<DeviceCall>& call() const { return call_; }
  // It is on its stream: all that the profiler of the host can see of it.
  void has_been_put() {
    if (recordFunctionEndCallback_) std::exchange(recordFunctionEndCallback_, nullptr)();
  }

 private:
  const std::shared_ptr<DeviceCall> call_;
  const uint64_t sequence_number_;
};

}  // namespace tutti_torch
