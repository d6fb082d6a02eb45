// Where the threads that help with large calls run.
#include "executor/crew.h"

#include <sched.h>

#include <algorithm>
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

struct Where {
  int cpu = -1;
  std::vector<int> allowed;
};

// Where a helper worked while the caller, who waits for it, did.
Where helper_of(Crew& crew, bool elsewhere) {
  const std::thread::id caller = std::this_thread::get_id();
  Where where;
  std::atomic<bool> begun = false, known = false;
  auto work = [&] {
    if (std::this_thread::get_id() != caller && !begun.exchange(true)) {
      where = {::sched_getcpu(), allowed_cpus()};
      known = true;
    }
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!known && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  };
  crew.run(work, elsewhere);
  return where;
}

TEST_CASE("a helper kept elsewhere runs where its caller does not, wherever that goes, though others wait there") {
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
    CHECK(helper_of(crew, true).cpu == there);
  }
  run_on(::pthread_self(), allowed);
}

TEST_CASE("a helper that was kept elsewhere may run on all processors in the next call that does not ask for it") {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) {
    WARN("skipped: needs two processors");
    return;
  }
  Crew crew(1, cpus);
  CHECK(helper_of(crew, true).allowed.size() == cpus.size() - 1);
  CHECK(helper_of(crew, false).allowed == cpus);
}

TEST_CASE("helpers stay on all processors where there is not one for each beside the caller's") {
  const std::vector<int> allowed = allowed_cpus();
  const std::vector<int> cpus(allowed.begin(), allowed.begin() + std::min<ptrdiff_t>(2, std::ssize(allowed)));
  Crew crew(2, cpus);
  CHECK(helper_of(crew, true).allowed == cpus);
}

TEST_CASE("a helper that has one processor stays there") {
  const std::vector<int> cpus = allowed_cpus();
  REQUIRE(!cpus.empty());
  Crew crew(1, {cpus.front()});
  CHECK(helper_of(crew, true).cpu == cpus.front());
}

}  // namespace
}  // namespace tutti
