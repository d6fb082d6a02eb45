#include "core/waiting_cpu.h"

#include <algorithm>
#include <chrono>

namespace tutti {
namespace {

constexpr int kRoundsBeforeMove = 32;  // some 30 us of yielding to each other: about what a move costs
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

bool WaitingCpu::is_shared_with(int rank, const Peers& peers) {
  int cpu = ::sched_getcpu();
  if (cpu != told_) tell(cpu, peers);
  bool is_shared = cpu >= 0 && rank >= 0 && peers[rank] && peers[rank]->link().peer_cpu() == cpu;
  shared_rounds_ = is_shared ? shared_rounds_ + 1 : 0;
  return is_shared;
}

// The peer that waits here must see that this one is on its way before it looks for a place itself; it cannot run until
// this one has gone. Others that look at the same time mostly choose another processor, by their ranks.
bool WaitingCpu::leave(const Peers& peers) {
  if (shared_rounds_ < kRoundsBeforeMove) return false;
  shared_rounds_ = 0;
  auto now = Clock::now();
  if (now - last_move_ < pause_) return false;
  bool lasted = now - last_move_ > pause_ + kLasts;
  pause_ = lasted ? Clock::duration(kShortestPause) : std::min<Clock::duration>(pause_ * 2, kLongestPause);
  last_move_ = now;

  CpuSet allowed = CpuSet::of_this_thread();
  CpuSet free = allowed;
  int here = told_;
  for (auto& peer : peers) {
    if (peer) free.remove(peer->link().peer_cpu());
  }
  if (free.count() == 0) return false;
  CpuSet chosen;
  chosen.add(free.at(rank_ % free.count()));
  tell(chosen.at(0), peers);
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
