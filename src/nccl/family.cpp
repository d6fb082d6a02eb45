#include "nccl/family.h"

#include <chrono>

namespace tutti::nccl {
namespace {

constexpr std::chrono::seconds kLeaveWait{10};

}  // namespace

void Family::enter() {
  std::lock_guard lock(mutex_);
  ++members_;
}

void Family::withdraw() {
  std::lock_guard lock(mutex_);
  --members_;
}

bool Family::begin_to_finalize() {
  std::lock_guard lock(mutex_);
  return ++finalizing_ == members_;
}

void Family::begin_to_leave(bool has_finalized) {
  std::lock_guard lock(mutex_);
  --members_;
  finalizing_ -= has_finalized ? 1 : 0;
  ++leaving_;
}

void Family::left() {
  std::lock_guard lock(mutex_);
  --leaving_;
  gone_.notify_all();
}

void Family::wait_if_all_leave() {
  std::unique_lock lock(mutex_);
  if (members_ > 0) return;
  gone_.wait_for(lock, kLeaveWait, [this] { return leaving_ == 0; });
}

}  // namespace tutti::nccl
