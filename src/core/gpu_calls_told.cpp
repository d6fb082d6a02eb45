// What is told of calls that were offered for GPUs (gpu_told.h).
#include "core/communicator.h"

namespace tutti {

// With mutex_: the rank makes its next call, and has something to offer for it.
uint32_t GpuCalls::begin_offered(const tutti_request& request) {
  uint32_t number = begin_call();
  told_of_.made(request, called_);
  if (!communicator_.has_profiler()) return number;
  told_of_.tell_ended(progress());
  if (told_of_.begin(request, called_, algorithm_of(request))) ring(communicator_.rank());
  return number;
}

// As tutti_comm_plan_info() names it.
const char* GpuCalls::algorithm_of(const tutti_request& request) {
  if (programs_ == nullptr) return "fused";
  auto planned = programs_->plan_for(shape_of(request));
  return planned.ok() ? (*planned)->plan.shape().algorithm.c_str() : "";
}

// The gates first. They also open for a failure, behind a call that has failed on the host, and behind a launch that
// has done nothing as another rank had failed: all of that is known before.
GpuTold::Progress GpuCalls::progress() const {
  uint32_t open = done();
  bool is_cancelled = gates_->is_cancelled();
  Status failure = communicator_.failure();
  if (!failure.ok()) return {.done = open, .code = failure.code(), .has_failed = true};
  return {.done = open, .code = is_cancelled ? Code::kAborted : gates_->status().code()};
}

void GpuCalls::tell_ended() {
  if (told_of_.has_more()) told_of_.tell_ended(progress());
}

// No calls come any more.
void GpuCalls::tell_rest() {
  tell_ended();
  told_of_.end_all(Code::kAborted);
}

}  // namespace tutti
