#include "executor/crew.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "base/log.h"
#include "base/memory.h"

namespace tutti {

namespace {

// A caller that keeps its thread on one processor does not mean its helpers. Where the processors are no longer this
// process's, they stay where they are.
void run_on(std::thread& thread, const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  int most = *std::max_element(cpus.begin(), cpus.end()) + 1;
  cpu_set_t* set = CPU_ALLOC(most);
  if (set == nullptr) return;
  size_t size = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(size, set);
  for (int cpu : cpus) CPU_SET_S(cpu, size, set);
  (void)::pthread_setaffinity_np(thread.native_handle(), size, set);
  CPU_FREE(set);
}

}  // namespace

Crew::Crew(int helpers, const std::vector<int>& cpus) {
  helpers_.reserve(static_cast<size_t>(helpers));
  try {
    for (int i = 0; i < helpers; ++i) {
      helpers_.emplace_back([this] { or_end_without_memory([this] { help(); }); });
      run_on(helpers_.back(), cpus);
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

void Crew::run(const std::function<void()>& work) {
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
