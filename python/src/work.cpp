#include "work.h"

#include <algorithm>

#include <ATen/core/ivalue_inl.h>

namespace tutti_torch {

TuttiWork::TuttiWork(int rank, c10d::OpType type, const char* title,
                     const std::optional<std::vector<at::Tensor>>& inputs, std::shared_ptr<Call> call,
                     uint64_t sequence_number)
    : Work(rank, type, title, inputs), call_(std::move(call)), sequence_number_(sequence_number) {
  if (recordFunctionEndCallback_) call_->set_hook(std::move(recordFunctionEndCallback_));
}

TuttiWork::~TuttiWork() { call_->watch(); }

void TuttiWork::synchronize() { wait(); }

bool TuttiWork::isSuccess() const { return call_->poll() && call_->error() == nullptr; }

bool TuttiWork::wait(std::chrono::milliseconds timeout) {
  if (timeout <= kNoTimeout) {
    call_->wait();
  } else if (!call_->wait_for(timeout)) {
    C10_THROW_ERROR(DistBackendError,
                    c10::str("tutti: ", call_->name(), ": Timed out waiting ", timeout.count(),
                             "ms in Work.wait(); the call itself goes on until its own deadline"));
  }
  if (auto error = call_->error()) std::rethrow_exception(error);
  timeout <= kNoTimeout ? call_->join_current_stream() : call_->wait_for_device();
  return true;
}

bool CoalescedWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](auto& work) { return work->isCompleted(); });
}

bool CoalescedWork::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(), [](auto& work) { return work->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const {
  for (auto& work : works_) {
    if (auto error = work->exception()) return error;
  }
  return nullptr;
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> all;
  for (auto& work : works_) {
    auto outputs = work->result();
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  return all;
}

void CoalescedWork::synchronize() {
  for (auto& work : works_) work->synchronize();
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  for (auto& work : works_) work->wait(timeout);
  return true;
}

void CoalescedWork::abort() {
  if (!works_.empty()) works_.front()->abort();  // they are of one communicator
}

c10::intrusive_ptr<c10::ivalue::Future> CoalescedWork::getFuture() {
  using c10::ivalue::Future;
  auto type = c10::ListType::create(c10::TensorType::get());
  c10::List<c10::intrusive_ptr<Future>> each(c10::FutureType::create(type));
  for (auto& work : works_) each.push_back(work->getFuture());
  auto outputs = result();
  return c10::collectAll(each)->then(
      [outputs](Future& all) {
        if (all.hasError()) std::rethrow_exception(all.exception_ptr());
        return at::IValue(outputs);
      },
      type);
}

}  // namespace tutti_torch
