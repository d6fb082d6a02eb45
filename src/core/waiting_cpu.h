// WaitingCpu: on which processor a rank waits, and how it leaves one where another rank of its host waits, too, or,
// with more ranks than processors, where more do than elsewhere. Such ranks take turns, while other processors may be
// idle: the kernel puts processes that start or wake together onto one, and takes tens of milliseconds to notice; three
// ranks on one processor and one on another it leaves there for a second.
#pragma once

#include <sched.h>

#include <array>
#include <cstdint>
#include <vector>

#include "base/deadline.h"
#include "executor/call.h"
#include "topology/cpu_list.h"

namespace tutti {

class CpuSet {
 public:
  void add(int cpu) { CPU_SET_S(cpu, sizeof words_, words_.data()); }
  // Any number, also a negative one.
  void remove(int cpu) {
    if (cpu >= 0) CPU_CLR_S(cpu, sizeof words_, words_.data());
  }
  bool has(int cpu) const { return CPU_ISSET_S(cpu, sizeof words_, words_.data()); }
  int count() const { return CPU_COUNT_S(sizeof words_, words_.data()); }
  // The one with `index` smaller ones in the set; -1 if there are fewer.
  int at(int index) const;

  // What the calling thread may use; empty if the kernel does not say.
  static CpuSet of_this_thread();
  // False: it may use none of them, and nothing changed.
  bool use() const { return ::sched_setaffinity(0, sizeof words_, words_.data()) == 0; }

 private:
  std::array<cpu_set_t, kMaxCpus / CPU_SETSIZE> words_{};
};

// Threads of all programs that run or could now, on the processors of the whole host; -1 if the kernel does not say.
int runnable_threads();

class WaitingCpu {
 public:
  explicit WaitingCpu(int rank, int (*runnable)() = runnable_threads);

  // Whether `rank` waited last on the processor that the calling thread runs on: it can hardly go on while this one
  // spins. Tells the peers of this rank's, where that has changed.
  bool is_shared_with(int rank, const Peers& peers);
  // There is a peer that has not been told.
  void tell_again() { told_ = -1; }
  // After is_shared_with(): moves the calling thread to a processor that it may use and where no peer waits; what it
  // may use stays as it was. False: not yet, or there is none. Moves that do not last become rare, since something else
  // uses that processor.
  bool leave(const Peers& peers);
  // For hosts whose `ranks` do not spin while they wait, each time when one does: tells peers as is_shared_with() does,
  // and moves the calling thread, as leave() does, to a processor where at least two ranks fewer waited last, this one
  // counted. Not while the peers that it has do not tell where all ranks of the host waited, nor while more threads of
  // the whole host than its ranks want processors, or the kernel does not say: it may leave one to another program.
  bool even_out(size_t ranks, const Peers& peers);

 private:
  void tell(int cpu, const Peers& peers);
  bool pauses(Clock::time_point now) const { return now - last_try_ < pause_; }
  void pause(Clock::time_point now);
  bool move(const CpuSet& allowed, int cpu, const Peers& peers);

  const int rank_;
  int (*const runnable_)();
  int told_ = -1;          // to the peers
  int shared_rounds_ = 0;  // how often it was asked in a row, and shared
  int even_rounds_ = 0;    // how often even_out() was called since it last wanted to look
  Clock::time_point next_look_;
  std::vector<uint16_t> waiting_;  // peers on each processor, when it last looked
  Clock::time_point last_try_;  // to move
  Clock::duration pause_{};     // until the next one
};

}  // namespace tutti
