#include "core/waiting_cpu.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string_view>

#include "base/fd.h"

namespace tutti {
namespace {

constexpr int kRoundsBeforeMove = 32;  // some 30 us of yielding to each other: about what a move costs
constexpr int kRoundsBetweenClocks = 32;
constexpr std::chrono::milliseconds kBetweenLooks{1};  // at where all wait
constexpr std::chrono::milliseconds kShortestPause{10};
constexpr std::chrono::seconds kLongestPause{10};
constexpr std::chrono::seconds kLasts{1};

}  // namespace

int CpuSet::at(int index) const {
  for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
    if (has(cpu) && index-- == 0) return cpu;
  }
  return -1;
}

CpuSet CpuSet::of_this_thread() {
  CpuSet set;
  if (::sched_getaffinity(0, sizeof set.words_, set.words_.data()) != 0) return {};
  return set;
}

int runnable_threads() {
  Fd file(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  ssize_t size = file ? ::read(file.get(), text.data(), text.size() - 1) : 0;
  std::string_view words(text.data(), static_cast<size_t>(std::max<ssize_t>(0, size)));
  size_t slash = words.find('/');  // three averages, and runnable/all
  size_t before = slash == words.npos ? slash : words.rfind(' ', slash);
  if (before == words.npos) return -1;
  int runnable = -1;
  std::from_chars(words.data() + before + 1, words.data() + slash, runnable);
  return runnable;
}

WaitingCpu::WaitingCpu(int rank, int (*runnable)())
    : rank_(rank), runnable_(runnable),
      waiting_(static_cast<size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_CONF)))) {}

bool WaitingCpu::is_shared_with(int rank, const Peers& peers) {
  int cpu = ::sched_getcpu();
  if (cpu != told_) tell(cpu, peers);
  bool is_shared = cpu >= 0 && rank >= 0 && peers[rank] && peers[rank]->link().peer_cpu() == cpu;
  shared_rounds_ = is_shared ? shared_rounds_ + 1 : 0;
  return is_shared;
}

// Others that look at the same time mostly choose another processor, by their ranks.
bool WaitingCpu::leave(const Peers& peers) {
  if (shared_rounds_ < kRoundsBeforeMove) return false;
  shared_rounds_ = 0;
  auto now = Clock::now();
  if (pauses(now)) return false;
  pause(now);
  CpuSet allowed = CpuSet::of_this_thread();
  CpuSet free = allowed;
  for (auto& peer : peers) {
    if (peer) free.remove(peer->link().peer_cpu());
  }
  return free.count() > 0 && move(allowed, free.at(rank_ % free.count()), peers);
}

bool WaitingCpu::even_out(size_t ranks, const Peers& peers) {
  int here = ::sched_getcpu();
  if (here != told_) tell(here, peers);
  int cpus = static_cast<int>(waiting_.size());
  if (here < 0 || here >= cpus || ++even_rounds_ < kRoundsBetweenClocks) return false;
  even_rounds_ = 0;
  auto now = Clock::now();
  if (now < next_look_ || pauses(now)) return false;
  next_look_ = now + kBetweenLooks;
  CpuSet allowed = CpuSet::of_this_thread();
  if (allowed.count() < 2) return false;
  size_t known = 1;
  std::fill(waiting_.begin(), waiting_.end(), 0);
  for (auto& peer : peers) {
    int cpu = peer ? peer->link().peer_cpu() : -1;
    known += cpu >= 0;
    if (cpu >= 0 && cpu < cpus) ++waiting_[cpu];
  }
  if (known < ranks) return false;
  int best = here;
  for (int i = 0; i < cpus; ++i) {  // of several with as few ranks each begins with another one
    int cpu = (rank_ + i) % cpus;
    if (allowed.has(cpu) && waiting_[cpu] < waiting_[best]) best = cpu;
  }
  if (best == here) return false;
  pause(now);
  int runnable = runnable_();
  bool are_alone = runnable >= 0 && static_cast<size_t>(runnable) <= ranks;
  return are_alone && move(allowed, best, peers);
}

void WaitingCpu::pause(Clock::time_point now) {
  bool lasted = now - last_try_ > pause_ + kLasts;
  pause_ = lasted ? Clock::duration(kShortestPause) : std::min<Clock::duration>(pause_ * 2, kLongestPause);
  last_try_ = now;
}

// The peer that waits here must see that this one is on its way before it looks for a place itself; it cannot run until
// this one has gone.
bool WaitingCpu::move(const CpuSet& allowed, int cpu, const Peers& peers) {
  int here = told_;
  CpuSet chosen;
  chosen.add(cpu);
  tell(cpu, peers);
  if (!chosen.use()) {
    tell(here, peers);
    return false;
  }
  (void)allowed.use();
  return true;
}

void WaitingCpu::tell(int cpu, const Peers& peers) {
  told_ = cpu;
  for (auto& peer : peers) {
    if (peer) peer->link().tell_cpu(cpu);
  }
}

}  // namespace tutti
