// Where the threads that help with large calls run.
#include "executor/crew.h"

#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/affinity.h"

namespace tutti {
namespace {

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// Where the helper worked while the caller, who waits for it, did.
int cpu_of_helper(Crew& crew) {
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> cpu = -1;
  crew.run([&] {
    if (std::this_thread::get_id() != caller) cpu = ::sched_getcpu();
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (cpu < 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  });
  return cpu;
}

TEST_CASE("a helper runs where its caller does not, wherever that goes, though others wait there") {
  const std::vector<int> allowed = allowed_cpus();
  if (allowed.size() < 2) {
    WARN("skipped: needs two processors");
    return;
  }
  const std::vector<int> cpus{allowed[0], allowed[1]};
  Crew crew(1, cpus);
  for (size_t round = 0; round < 20; ++round) {
    int here = cpus[round % 2], there = cpus[(round + 1) % 2];
    REQUIRE(run_on(::pthread_self(), std::vector{here}));
    // As another rank does that waits for this one.
    std::jthread other([](const std::stop_token& stop) {
      while (!stop.stop_requested()) std::this_thread::yield();
    });
    REQUIRE(run_on(other.native_handle(), std::vector{there}));
    CHECK(cpu_of_helper(crew) == there);
  }
  run_on(::pthread_self(), allowed);
}

TEST_CASE("a helper that has one processor stays there") {
  const std::vector<int> cpus = allowed_cpus();
  REQUIRE(!cpus.empty());
  Crew crew(1, {cpus.front()});
  CHECK(cpu_of_helper(crew) == cpus.front());
}

}  // namespace
}  // namespace tutti
