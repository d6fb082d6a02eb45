// Work: what a program holds of one call.
#pragma once

#include <memory>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "call.h"

namespace tutti_torch {

class TuttiWork : public c10d::Work {
 public:
  // `title`: for the profiler, static; null for none.
  TuttiWork(int rank, c10d::OpType type, const char* title, const std::optional<std::vector<at::Tensor>>& inputs,
            std::shared_ptr<Call> call, uint64_t sequence_number);
  // A call that is not complete yet is finished by the watcher.
  ~TuttiWork() override;

  bool isCompleted() override { return call_->poll(); }
  bool isSuccess() const override;
  std::exception_ptr exception() const override { return call_->error(); }
  int sourceRank() const override { return call_->source(); }
  std::vector<at::Tensor> result() override { return call_->outputs(); }
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override { call_->communicator().abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return call_->future(); }
  uint64_t getSequencenumber() const override { return sequence_number_; }

  Call& call() { return *call_; }

 private:
  const std::shared_ptr<Call> call_;
  const uint64_t sequence_number_;
};

// Several as one.
class CoalescedWork : public c10d::Work {
 public:
  CoalescedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works)
      : Work(rank, c10d::OpType::COALESCED), works_(std::move(works)) {}

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace tutti_torch
