// Threads for probes: each on a CPU of its own choice, so that the caller's affinity mask stays as it is.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <chrono>
#include <cstdint>
#include <system_error>
#include <thread>

#include "base/deadline.h"
#include "topology/cpu_list.h"

namespace tutti {

// A CPU that may not be used leaves the thread where it is.
inline void pin_this_thread(int cpu) {
  size_t size = CPU_ALLOC_SIZE(kMaxCpus);
  cpu_set_t* set = CPU_ALLOC(kMaxCpus);
  if (set == nullptr) return;
  CPU_ZERO_S(size, set);
  CPU_SET_S(cpu, size, set);
  ::pthread_setaffinity_np(::pthread_self(), size, set);
  CPU_FREE(set);
}

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

inline uint64_t ns_since(Clock::time_point start) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

// Payload per second; at least 1, also for a clock that stood still.
inline uint64_t rate_of(uint64_t bytes, uint64_t ns) {
  double rate = static_cast<double>(bytes) * 1e9 / static_cast<double>(ns == 0 ? 1 : ns);
  return rate < 1 ? 1 : static_cast<uint64_t>(rate);
}

}  // namespace tutti
