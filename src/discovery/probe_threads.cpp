// What it costs that one thread or process tells another.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <vector>

#include "base/fd.h"
#include "discovery/pinned.h"
#include "discovery/probe_word.h"
#include "discovery/probes.h"

namespace tutti {
namespace {

constexpr int64_t kLimitMs = 50;  // of each probe, if the machine is too busy for it

// Round trips between two that poll, in batches: short ones, so that some fit between the interruptions of a busy
// machine. They go by many words, one after the other, since a line's way depends on where in a mesh of cores its
// address has its place.
template <typename Relax>
class PingPong {
 public:
  PingPong(uint32_t batches, uint32_t rounds, Relax relax) : batches_(batches), rounds_(rounds), relax_(relax) {}

  // The way there, from the quickest batch.
  std::optional<uint64_t> ask() {
    std::optional<uint64_t> best;
    uint32_t round = 0;
    for (uint32_t batch = 0; batch < batches_ && !deadline_.passed(); ++batch) {
      auto start = Clock::now();
      for (uint32_t i = 0; i < rounds_; ++i) {
        ++round;
        pings_[round % kWords].value.store(round, std::memory_order_release);
        if (!await(pongs_[round % kWords], round, deadline_, relax_)) return best;
      }
      uint64_t one_way = std::max<uint64_t>(1, ns_since(start) / (2 * rounds_));
      best = std::min(best.value_or(one_way), one_way);
    }
    return best;
  }
  void answer() {
    for (uint32_t round = 1; round <= batches_ * rounds_; ++round) {
      if (!await(pings_[round % kWords], round, deadline_, relax_)) return;
      pongs_[round % kWords].value.store(round, std::memory_order_release);
    }
  }

 private:
  static constexpr uint32_t kWords = 32;
  const uint32_t batches_, rounds_;
  Relax relax_;
  Deadline deadline_ = Deadline::after_ms(kLimitMs);
  std::array<ProbeWord, kWords> pings_;
  std::array<ProbeWord, kWords> pongs_;
};

// A child of this thread alone, on its CPU, of which the program does not hear: no handlers of forks run, signals do
// not reach it, none comes when it has ended, and it keeps no file open. It may make system calls and use memory that
// there is already, and does not outlive the thread.
class Child {
 public:
  template <typename Body>
  explicit Child(Body&& body) {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_ = static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES, nullptr, nullptr, nullptr, nullptr));
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
      ::syscall(SYS_exit_group, 0);
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  // Ends it, whatever it is at.
  ~Child() {
    if (!started()) return;
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  bool started() const { return pid_ > 0; }

 private:
  pid_t pid_ = -1;
};

// Sums that do not wait for each other, as many as keep all of a core's adders busy.
uint64_t sums_ns() {
  constexpr uint32_t kTurns = 10'000;
  uint64_t a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7;
  auto start = Clock::now();
  for (uint64_t turn = 0; turn < kTurns; ++turn) {
    a += turn, b += turn, c += turn, d += turn, e += turn, f += turn, g += turn, h += turn;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g), "+r"(h));
  }
  return ns_since(start);
}

// What is usual: the quickest may be one during which the other CPU was disturbed.
uint64_t usual_sums_ns() {
  std::array<uint64_t, 41> samples;
  for (uint64_t& sample : samples) sample = sums_ns();
  auto usual = samples.begin() + samples.size() / 2;
  std::nth_element(samples.begin(), usual, samples.end());
  return *usual;
}

// One thread sleeps on an eventfd, the other wakes it and notes when.
class WakeProbe {
 public:
  explicit WakeProbe(int fd) : fd_(fd) {}

  void sleep_and_note() {
    for (uint32_t i = 1; i <= kSamples; ++i) {
      asleep_.value.store(i, std::memory_order_release);
      pollfd wait{fd_, POLLIN, 0};
      if (::poll(&wait, 1, kLimitMs) != 1) return;
      int64_t now = Clock::now().time_since_epoch().count();
      uint64_t count = 0;
      if (::read(fd_, &count, sizeof count) != sizeof count) return;
      woken_at_.store(now, std::memory_order_relaxed);
      awake_.value.store(i, std::memory_order_release);
    }
  }

  void wake_and_note(std::vector<uint64_t>& samples) {
    for (uint32_t i = 1; i <= kSamples; ++i) {
      if (!await(asleep_, i, deadline_)) return;
      auto start = Clock::now();
      while (ns_since(start) < kSettleNs) {
      }
      start = Clock::now();
      uint64_t one = 1;
      if (::write(fd_, &one, sizeof one) != sizeof one || !await(awake_, i, deadline_)) return;
      int64_t ns = woken_at_.load(std::memory_order_relaxed) - start.time_since_epoch().count();
      samples.push_back(static_cast<uint64_t>(std::max<int64_t>(1, ns)));
    }
  }

 private:
  static constexpr uint32_t kSamples = 41;
  static constexpr uint64_t kSettleNs = 100'000;  // for the sleeper to be asleep, and its core idle
  int fd_;
  Deadline deadline_ = Deadline::after_ms(kLimitMs);
  ProbeWord asleep_;
  ProbeWord awake_;
  std::atomic<int64_t> woken_at_{0};
};

}  // namespace

std::optional<uint64_t> probe_cache_line_ns(CpuPair cpus) {
  if (cpus.first == cpus.second) return std::nullopt;
  PingPong words(100, 100, [] {});
  std::optional<uint64_t> best;
  run_pinned(
      cpus.first, [&] { best = words.ask(); }, cpus.second, [&] { words.answer(); });
  return best;
}

bool probe_is_one_core(CpuPair cpus) {
  if (cpus.first == cpus.second) return true;
  uint64_t alone_ns = 0, together_ns = 0;
  run_pinned(cpus.first, [&] {
    usual_sums_ns();  // until the core is as quick as it gets
    alone_ns = usual_sums_ns();
  });
  ProbeWord begun, ended;
  Deadline deadline = Deadline::after_ms(kLimitMs);
  auto first = [&] {
    if (await(begun, 1, deadline)) together_ns = usual_sums_ns();
    ended.value.store(1, std::memory_order_release);
  };
  auto second = [&] {
    begun.value.store(1, std::memory_order_release);
    while (ended.value.load(std::memory_order_acquire) == 0 && !deadline.passed()) sums_ns();
  };
  run_pinned(cpus.first, first, cpus.second, second);
  return 2 * together_ns > 3 * alone_ns;
}

// Ranks are processes. Between threads it took 428 ns where it takes 524 between these, on a Xeon.
std::optional<uint64_t> probe_yield_ns(int cpu) {
  auto yield = [] { ::sched_yield(); };
  using Words = PingPong<decltype(yield)>;
  void* memory = ::mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::nullopt;
  auto* words = new (memory) Words(50, 40, yield);
  std::optional<uint64_t> best;
  run_pinned(cpu, [&] {
    Child child([&] { words->answer(); });
    if (child.started()) best = words->ask();
  });
  ::munmap(memory, sizeof(Words));
  return best;
}

std::optional<uint64_t> probe_wake_ns(CpuPair cpus) {
  static_assert(std::is_same_v<Clock::duration, std::chrono::nanoseconds>);
  if (cpus.first == cpus.second) return std::nullopt;
  Fd event(::eventfd(0, EFD_CLOEXEC));
  if (!event) return std::nullopt;
  WakeProbe probe(event.get());
  std::vector<uint64_t> samples;
  run_pinned(
      cpus.first, [&] { probe.wake_and_note(samples); }, cpus.second, [&] { probe.sleep_and_note(); });
  if (samples.size() < 5) return std::nullopt;
  auto median = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), median, samples.end());
  return *median;
}

}  // namespace tutti
