#include "discovery/probes.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "discovery/calibrate.h"
#include "discovery/discover.h"
#include "discovery/pinned.h"
#include "tests/base/sanitizers.h"

using namespace tutti;
using test::kUnderThreadSanitizer;

namespace {

constexpr uint64_t kLessMemory = 256 << 20;

}  // namespace

TEST_CASE("every figure of a measurement is measured or the default, and never zero") {
  auto host = discover_live();
  REQUIRE(host.ok());
  if (kUnderThreadSanitizer) host->limits.memory_limit_bytes = kLessMemory;
  Costs costs = measure_costs(*host);
  Costs defaults;
  const Figure Costs::*figures[] = {&Costs::copy_bytes_per_s,
                                    &Costs::reduce_bytes_per_s,
                                    &Costs::cached_bytes_per_s,
                                    &Costs::last_level_bytes_per_s,
                                    &Costs::cached_copy_bytes_per_s,
                                    &Costs::last_level_copy_bytes_per_s,
                                    &Costs::memory_bytes_per_s,
                                    &Costs::streaming_bytes,
                                    &Costs::cache_line_ns,
                                    &Costs::slot_store_bytes_per_s,
                                    &Costs::slot_load_bytes_per_s,
                                    &Costs::small_slot_store_bytes_per_s,
                                    &Costs::small_slot_load_bytes_per_s,
                                    &Costs::slot_settle_ns,
                                    &Costs::wake_ns,
                                    &Costs::yield_ns,
                                    &Costs::pull_ns,
                                    &Costs::pull_bytes_per_s,
                                    &Costs::tcp_ns,
                                    &Costs::tcp_send_ns,
                                    &Costs::tcp_receive_ns,
                                    &Costs::tcp_bytes_per_s,
                                    &Costs::tcp_both_bytes_per_s,
                                    &Costs::large_tcp_bytes_per_s,
                                    &Costs::large_tcp_both_bytes_per_s};
  for (auto figure : figures) {
    CHECK((costs.*figure).value > 0);
    CHECK(((costs.*figure).origin == Origin::kProbe || costs.*figure == defaults.*figure));
  }
  CHECK(costs.copy_bytes_per_s.origin == Origin::kProbe);
  CHECK(costs.tcp_send_ns.origin == costs.tcp_ns.origin);
  CHECK(costs.tcp_receive_ns.origin == costs.tcp_ns.origin);
}

TEST_CASE("a yield is to another process, of which the program does not hear") {
  static std::atomic<int> heard = 0;
  ::pthread_atfork([] { ++heard; }, [] { ++heard; }, [] { ++heard; });
  auto* before = ::signal(SIGCHLD, [](int) { ++heard; });
  auto switches_of_children = [] {
    rusage used{};
    ::getrusage(RUSAGE_CHILDREN, &used);
    return used.ru_nvcsw + used.ru_nivcsw;
  };
  long switches = switches_of_children();
  std::optional<uint64_t> ns = probe_yield_ns(usable_cpus().front());
  ::signal(SIGCHLD, before);
  REQUIRE(ns.has_value());
  CHECK(*ns > 0);
  CHECK(switches_of_children() > switches);
  CHECK(heard == 0);
  errno = 0;
  CHECK(::waitpid(-1, nullptr, WNOHANG | __WALL) == -1);  // none is left
  CHECK(errno == ECHILD);
}

TEST_CASE("signals to the group of a program that measures a yield do not run its handlers in the child") {
  struct Seen {
    std::atomic<pid_t> program;
    std::atomic<int> here, elsewhere;
  };
  auto* memory = ::mmap(nullptr, sizeof(Seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  static Seen* seen = nullptr;
  seen = new (memory) Seen();
  pid_t program = ::fork();
  if (program == 0) {
    ::setpgid(0, 0);  // the signals are not for the test's own group
    seen->program = ::getpid();
    ::signal(SIGUSR1, [](int) { ++(::getpid() == seen->program ? seen->here : seen->elsewhere); });
    std::atomic<bool> done = false;
    std::thread sender([&] {
      while (!done) ::kill(0, SIGUSR1);
    });
    for (int i = 0; i < 20; ++i) probe_yield_ns(usable_cpus().front());
    done = true;
    sender.join();
    ::_exit(0);
  }
  int status = -1;
  CHECK(::waitpid(program, &status, 0) == program);
  CHECK(status == 0);
  CHECK(seen->here > 0);
  CHECK(seen->elsewhere == 0);
  ::munmap(memory, sizeof(Seen));
}

TEST_CASE("with one CPU, what needs two is not measured and nothing hangs") {
  auto host = discover_live();
  REQUIRE(host.ok());
  host->cpu.allowed_cpus.resize(1);
  if (kUnderThreadSanitizer) host->limits.memory_limit_bytes = kLessMemory;
  Costs costs = measure_costs(*host);
  CHECK(costs.cache_line_ns == Costs().cache_line_ns);
  CHECK(costs.wake_ns == Costs().wake_ns);
  CHECK(costs.slot_store_bytes_per_s == Costs().slot_store_bytes_per_s);
  CHECK(costs.slot_load_bytes_per_s == Costs().slot_load_bytes_per_s);
  CHECK(costs.small_slot_store_bytes_per_s == Costs().small_slot_store_bytes_per_s);
  CHECK(costs.small_slot_load_bytes_per_s == Costs().small_slot_load_bytes_per_s);
  CHECK(costs.slot_settle_ns == Costs().slot_settle_ns);
  CHECK(costs.memory_bytes_per_s == Costs().memory_bytes_per_s);
}

TEST_CASE("stores past the caches are not ruled out by what the last level of them holds") {
  auto bytes = probe_streaming_bytes(0, 8 << 20, 16 << 20);
  REQUIRE(bytes.has_value());
#ifdef __SSE2__
  CHECK(*bytes <= 16 << 20);
#else
  CHECK(*bytes == kNeverStreams);
#endif
}

TEST_CASE("stores past the caches have to gain a tenth where the last level of these holds both buffers") {
  constexpr uint64_t kMiB = 1 << 20;
  using Trial = std::pair<uint64_t, uint64_t>;
  std::vector<Trial> trials;
  auto found = [&](uint64_t gain, uint64_t last_level_bytes) {
    trials.clear();
    return least_streaming_bytes(64 * kMiB, last_level_bytes, [&](uint64_t size_bytes, uint64_t percent) {
      trials.emplace_back(size_bytes / kMiB, percent);
      return gain >= percent;
    });
  };
  CHECK(found(10, 32 * kMiB) == 4 * kMiB);
  CHECK(trials == std::vector<Trial>{{64, 0}, {32, 0}, {16, 10}, {8, 10}, {4, 10}});
  CHECK(found(9, 32 * kMiB) == 32 * kMiB);
  CHECK(trials == std::vector<Trial>{{64, 0}, {32, 0}, {16, 10}});
  CHECK(found(9, 32 * kMiB - 1) == 16 * kMiB);
}

TEST_CASE("where stores past the caches never win, a last level that holds more than was tried says from where on") {
  auto loses = [](uint64_t, uint64_t) { return false; };
  CHECK(least_streaming_bytes(8 << 20, 16 << 20, loses) == 16 << 20);
  CHECK(least_streaming_bytes(8 << 20, 8 << 20, loses) == kNeverStreams);
}

TEST_CASE("probes on a CPU that does not exist still end") {
  CHECK(probe_memory(4000, {}, 1 << 20).has_value());
  CHECK(probe_crowd({4000, 4001}, 1 << 20).has_value());
  probe_cache_line_ns({4000, 4001});
  probe_is_one_core({4000, 4001});
  probe_wake_ns({4000, 4001});
  probe_slots({4000, 4001}, Places::kMany);
  probe_slots({4000, 4001}, Places::kFew);
  probe_small_slots({4000, 4001});
}

TEST_CASE("a CPU is one core with itself") { CHECK(probe_is_one_core({0, 0})); }

TEST_CASE("a rank that is bound to one CPU measures with all that it may give itself") {
  std::vector<int> all = usable_cpus();
  REQUIRE_FALSE(all.empty());
  std::vector<int> seen;
  run_pinned(all.front(), [&] { seen = usable_cpus(); });
  CHECK(seen == all);
}

TEST_CASE("a measurement takes little of a small memory") {
  auto host = discover_live();
  REQUIRE(host.ok());
  host->limits.memory_limit_bytes = 64 << 20;
  Costs costs = measure_costs(*host);
  CHECK(costs.copy_bytes_per_s.origin == Origin::kProbe);
}
