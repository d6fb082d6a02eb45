#include "core/gpu_told.h"

#include <algorithm>

#include "core/communicator.h"

namespace tutti {

CallRecord GpuTold::record_of(const tutti_request& request, uint64_t number) {
  const CallArguments& arguments = request.arguments;
  return {.number = number,
          .collective = arguments.collective,
          .datatype = arguments.datatype,
          .op = arguments.op,
          .root = arguments.root,
          .count = request.geometry.said_count};
}

bool GpuTold::begin(const tutti_request& request, uint64_t number, const char* algorithm) {
  auto begun = communicator_.tell_begin(request, number, algorithm);
  if (!begun) return false;
  std::lock_guard lock(mutex_);
  bool is_first = told_.empty();
  told_.push_back({static_cast<uint32_t>(number), *begun});
  last_event_ = Clock::now();
  has_more_.store(true, std::memory_order_release);
  return is_first;
}

void GpuTold::end_first(Code code) {
  void* begun = told_.front().begun;
  told_.pop_front();
  communicator_.tell_end(begun, code);
  last_event_ = Clock::now();
  if (told_.empty()) has_more_.store(false, std::memory_order_release);
}

void GpuTold::tell_ended(const Progress& progress) {
  if (!has_more()) return;
  auto has_ended = [&](const Told& told) { return progress.has_failed || !comes_before(progress.done, told.number); };
  std::lock_guard lock(mutex_);
  while (!told_.empty() && has_ended(told_.front())) end_first(progress.code);
}

void GpuTold::end_all(Code code) {
  std::lock_guard lock(mutex_);
  while (!told_.empty()) end_first(code);
}

// Often at first, and then as often as makes no difference to how long the call seems to take.
std::chrono::nanoseconds GpuTold::look_within() {
  constexpr std::chrono::nanoseconds kLeast = std::chrono::microseconds(50), kMost = std::chrono::milliseconds(1);
  constexpr int kPart = 8;
  if (!has_more()) return std::chrono::nanoseconds(-1);
  std::lock_guard lock(mutex_);
  return std::clamp<std::chrono::nanoseconds>((Clock::now() - last_event_) / kPart, kLeast, kMost);
}

}  // namespace tutti
