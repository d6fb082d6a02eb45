#include "kernels/cuda/fibers.h"

#include <utility>

namespace tutti::test {
namespace {

constexpr size_t kStackBytes = 64 * 1024;

}  // namespace

void Fibers::add(std::function<void()> body) {
  ready_.push_back(fibers_.size());
  Fiber& fiber = fibers_.emplace_back();
  fiber.body = std::move(body);
  fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = &scheduler_;
  auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(&Fibers::enter), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
}

void Fibers::enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fibers*>(static_cast<uintptr_t>(high) << 32 | low);
  Fiber& fiber = self->fibers_[self->current_];
  fiber.body();
  fiber.is_done = true;
}

Fibers::End Fibers::run(uint64_t most_steps, const std::function<void()>& between) {
  for (uint64_t step = 0; step < most_steps; ++step) {
    if (ready_.empty()) break;
    if (between) between();
    std::swap(ready_[random_() % ready_.size()], ready_.back());
    current_ = ready_.back();
    ready_.pop_back();
    swapcontext(&scheduler_, &fibers_[current_].context);
  }
  if (!ready_.empty()) return End::kTooLong;
  for (const Fiber& fiber : fibers_) {
    if (!fiber.is_done) return End::kStuck;
  }
  return End::kAll;
}

void Fibers::yield() {
  ready_.push_back(current_);
  suspend();
}

void Fibers::suspend() { swapcontext(&fibers_[current_].context, &scheduler_); }

void Fibers::resume(size_t fiber) { ready_.push_back(fiber); }

bool FiberBarrier::arrive(bool mine) {
  any_ = any_ || mine;
  if (waiting_.size() + 1 < count_) {
    waiting_.push_back(fibers_.current());
    fibers_.suspend();
    return result_;
  }
  result_ = std::exchange(any_, false);
  for (size_t fiber : std::exchange(waiting_, {})) fibers_.resume(fiber);
  return result_;
}

}  // namespace tutti::test
