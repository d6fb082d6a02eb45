// Threads for probes: each on a CPU of its own choice, so that the caller's affinity mask stays as it is.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "base/deadline.h"
#include "topology/cpu_list.h"

namespace tutti {

// CPUs that may not be used are left out; when none is left the thread stays where it is.
inline void let_this_thread_use(int first_cpu, int last_cpu) {
  size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  cpu_set_t* set = CPU_ALLOC(kMaxCpus);
  if (set == nullptr) return;
  CPU_ZERO_S(size, set);
  for (int cpu = first_cpu; cpu <= last_cpu; ++cpu) CPU_SET_S(cpu, size, set);
  ::pthread_setaffinity_np(::pthread_self(), size, set);
  CPU_FREE(set);
}

inline void pin_this_thread(int cpu) { let_this_thread_use(cpu, cpu); }

// Runs `first` and `second` at the same time on their CPUs and returns when both have. False: no threads to be had;
// then neither ran, or `first` found its partner missing at its own deadline.
template <typename First, typename Second>
bool run_pinned(int first_cpu, First&& first, int second_cpu, Second&& second) {
  auto start = [](int cpu, auto& body) {
    return std::thread([cpu, &body] {
      pin_this_thread(cpu);
      body();
    });
  };
  std::thread one;
  std::thread two;
  bool started = true;
  try {
    one = start(first_cpu, first);
    two = start(second_cpu, second);
  } catch (const std::system_error&) {
    started = false;
  }
  if (one.joinable()) one.join();
  if (two.joinable()) two.join();
  return started;
}

template <typename Body>
bool run_pinned(int cpu, Body&& body) {
  auto nothing = [] {};
  return run_pinned(cpu, body, cpu, nothing);
}

// Runs `body(i)` on cpus[i], all at the same time, and returns when all have. False: there were not threads for all;
// `missing()` is then called for each that could not be had.
template <typename Body, typename Missing>
bool run_pinned_on(const std::vector<int>& cpus, Body&& body, Missing&& missing) {
  std::vector<std::thread> threads;
  threads.reserve(cpus.size());
  try {
    while (threads.size() < cpus.size()) {
      threads.emplace_back([&, i = threads.size()] {
        pin_this_thread(cpus[i]);
        body(i);
      });
    }
  } catch (const std::system_error&) {
    for (size_t i = threads.size(); i < cpus.size(); ++i) missing();
  }
  for (std::thread& thread : threads) thread.join();
  return threads.size() == cpus.size();
}

inline uint64_t ns_since(Clock::time_point start) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

// Payload per second; at least 1, also for a clock that stood still.
inline uint64_t rate_of(uint64_t bytes, uint64_t ns) {
  double rate = static_cast<double>(bytes) * 1e9 / static_cast<double>(ns == 0 ? 1 : ns);
  return rate < 1 ? 1 : static_cast<uint64_t>(rate);
}

}  // namespace tutti
