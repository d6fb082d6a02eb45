#include "executor/crew.h"

#include <sched.h>

#include <new>
#include <system_error>
#include <utility>

#include "base/affinity.h"
#include "base/log.h"
#include "base/memory.h"

namespace tutti {

Crew::Crew(int helpers, const std::vector<int>& cpus) : cpus_(cpus) {
  others_.reserve(cpus.size());
  helpers_.reserve(static_cast<size_t>(helpers));
  try {
    for (int i = 0; i < helpers; ++i) {
      helpers_.emplace_back([this] { or_end_without_memory([this] { help(); }); });
      // A caller that keeps its thread on one processor does not mean its helpers. Where the processors are no longer
      // this process's, they stay where they are.
      if (!cpus.empty()) (void)run_on(helpers_.back().native_handle(), cpus);
    }
  } catch (const std::system_error& problem) {
    log_warn("{} of {} threads that help with large calls were started ({}); raise the limit on threads (ulimit -u)",
             helpers_.size(), helpers, problem.what());
  } catch (const std::bad_alloc&) {
    log_warn("{} of {} threads that help with large calls were started (out of memory)", helpers_.size(), helpers);
  }
}

Crew::~Crew() {
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
  }
  begun_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Crew::run(const std::function<void()>& work, bool elsewhere) {
  leave(elsewhere && cpus_.size() > helpers_.size() ? ::sched_getcpu() : kNone);
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    ++round_;
  }
  begun_.notify_all();
  work();
  std::unique_lock lock(mutex_);
  work_ = nullptr;  // who has not woken up yet need not
  ended_.wait(lock, [this] { return helping_ == 0; });
}

void Crew::leave(int cpu) {
  if (cpu == std::exchange(left_, cpu)) return;
  others_.assign(cpus_.begin(), cpus_.end());
  std::erase(others_, cpu);
  for (std::thread& helper : helpers_) (void)run_on(helper.native_handle(), others_);
}

void Crew::help() {
  std::unique_lock lock(mutex_);
  for (uint64_t seen = 0;;) {
    begun_.wait(lock, [&] { return stops_ || (work_ != nullptr && round_ != seen); });
    if (stops_) return;
    seen = round_;
    const std::function<void()>& work = *work_;
    ++helping_;
    lock.unlock();
    work();
    lock.lock();
    if (--helping_ == 0) ended_.notify_one();
  }
}

}  // namespace tutti
