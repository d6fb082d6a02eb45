// Family: the ranks of one communicator that this process has. NCCL lets one thread finalize and destroy them one after
// another, while tutti's ranks wait for each other when they leave: so each leaves on a thread of its own, and only the
// last call of a family waits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace tutti::nccl {

// Shared by its ranks, by the threads on which they leave, and by groups that wait for those.
class Family {
 public:
  // Of all families of the process.
  uint64_t number() const { return number_; }

  void enter();
  // A rank that has entered, but never came to be.
  void withdraw();

  // A rank finalizes. True: so do all that are left, and its caller may wait.
  bool begin_to_finalize();

  // A rank leaves, and has left.
  void begin_to_leave(bool has_finalized);
  void left();
  // If all leave: waits until they have, or for some seconds: ranks of other processes may be at something that waits
  // for this one, and what is left to do needs no caller.
  void wait_if_all_leave();

 private:
  static inline std::atomic<uint64_t> families{0};
  const uint64_t number_ = ++families;

  std::mutex mutex_;  // guards what follows
  std::condition_variable gone_;
  int members_ = 0;
  int finalizing_ = 0;
  int leaving_ = 0;
};

}  // namespace tutti::nccl
