// Fences for two threads that each store something and then look at what the other one has stored, of
// which at least one is to see the other's store. Who does it often calls light_fence() in between, which costs nothing
// where the kernel has membarrier(2); who does it rarely heavy_fence(), a system call there. Elsewhere both are fences
// of the processor. See membarrier(2), MEMBARRIER_CMD_PRIVATE_EXPEDITED: for threads of this process.
//
// Threads of two processes have to know of each other what they do: heavy_fence_across_processes() is a fence for those
// of all processes that have joined (MEMBARRIER_CMD_GLOBAL_EXPEDITED), which is of use to who then calls none at all.
// It has a gap: Linux notes of each processor whether what runs there has joined, at a switch from one process to
// another (membarrier_switch_mm()), and forgets it when a thread ends there. Where a process ran before it joined, but
// not when it did, or where a thread of it has ended, and no other process has run since, its threads get no fence. So
// who relies on this one looks again after a while.
#pragma once

#include <atomic>

namespace tutti {

// A sequentially consistent fence. ThreadSanitizer does not know std::atomic_thread_fence (and gcc warns about it
// there).
inline void full_fence() {
#if defined(__SANITIZE_THREAD__)
  __sync_synchronize();
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Whether heavy_fence() is one for all threads of the process. Never changes once the library is loaded.
extern const bool kFencesForAllThreads;

inline void light_fence() {
  if (kFencesForAllThreads) {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    full_fence();
  }
}
void heavy_fence();

// Takes part in such fences, if the kernel has them, and says whether it has; a forked child asks anew.
bool join_fences_across_processes();
void heavy_fence_across_processes();

}  // namespace tutti
