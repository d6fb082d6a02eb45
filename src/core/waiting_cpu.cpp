#include "core/waiting_cpu.h"

#include <algorithm>
#include <chrono>

namespace tutti {
namespace {

constexpr int kRoundsBeforeMove = 32;  // some 30 us of yielding to each other: about what a move costs
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

bool WaitingCpu::is_shared_with(int rank, const Peers& peers) {
  int cpu = ::sched_getcpu();
  if (cpu != told_) tell(cpu, peers);
  bool is_shared = cpu >= 0 && rank >= 0 && peers[rank] && peers[rank]->link().peer_cpu() == cpu;
  shared_rounds_ = is_shared ? shared_rounds_ + 1 : 0;
  return is_shared;
}

bool WaitingCpu::leave(const Peers& peers) {
  if (shared_rounds_ < kRoundsBeforeMove) return false;
  shared_rounds_ = 0;
  if (pauses()) return false;
  CpuSet allowed = CpuSet::of_this_thread();
  CpuSet free = allowed;
  for (auto& peer : peers) {
    if (peer) free.remove(peer->link().peer_cpu());
  }
  return move(allowed, free.count() == 0 ? -1 : free.at(rank_ % free.count()), peers);
}

bool WaitingCpu::even_out(size_t ranks, const Peers& peers) {
  int here = ::sched_getcpu();
  if (here != told_) tell(here, peers);
  if (here < 0 || ++even_rounds_ < kRoundsBeforeMove) return false;
  even_rounds_ = 0;
  auto now = Clock::now();
  if (now < next_look_ || pauses()) return false;
  next_look_ = now + kBetweenLooks;
  auto peers_where = [&](auto fits) {
    return std::count_if(peers.begin(), peers.end(), [&](auto& peer) { return peer && fits(peer->link().peer_cpu()); });
  };
  auto waiting_on = [&](int cpu) { return peers_where([&](int its) { return its == cpu; }); };
  auto known = peers_where([](int its) { return its >= 0; });
  if (static_cast<size_t>(known) + 1 < ranks) return false;
  auto fewest = waiting_on(here);  // without this one
  int best = -1;
  CpuSet allowed = CpuSet::of_this_thread();
  for (int cpu = 0, left = allowed.count(); left > 0 && fewest > 0; ++cpu) {
    if (!allowed.has(cpu)) continue;
    --left;
    if (auto there = waiting_on(cpu); cpu != here && there < fewest) {
      fewest = there;
      best = cpu;
    }
  }
  return best >= 0 && move(allowed, best, peers);
}

// The peer that waits here must see that this one is on its way before it looks for a place itself; it cannot run until
// this one has gone. Others that look at the same time mostly choose another processor, by their ranks.
bool WaitingCpu::move(const CpuSet& allowed, int cpu, const Peers& peers) {
  auto now = Clock::now();
  bool lasted = now - last_move_ > pause_ + kLasts;
  pause_ = lasted ? Clock::duration(kShortestPause) : std::min<Clock::duration>(pause_ * 2, kLongestPause);
  last_move_ = now;
  if (cpu < 0) return false;
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
