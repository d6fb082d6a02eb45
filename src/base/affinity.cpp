#include "base/affinity.h"

#include <sched.h>

#include <algorithm>
#include <system_error>
#include <thread>

namespace tutti {

bool run_on(pthread_t thread, std::span<const int> cpus) {
  if (cpus.empty()) return false;
  int most = *std::max_element(cpus.begin(), cpus.end()) + 1;
  cpu_set_t* set = CPU_ALLOC(most);
  if (set == nullptr) return false;
  size_t size = CPU_ALLOC_SIZE(most);
  CPU_ZERO_S(size, set);
  for (int cpu : cpus) CPU_SET_S(cpu, size, set);
  bool is_done = ::pthread_setaffinity_np(thread, size, set) == 0;
  CPU_FREE(set);
  return is_done;
}

bool can_run_on(std::span<const int> cpus) {
  bool can = true;
  try {
    std::thread([&] { can = run_on(::pthread_self(), cpus); }).join();
  } catch (const std::system_error&) {
  }
  return can;
}

}  // namespace tutti
