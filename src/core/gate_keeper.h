// GateKeeper: the one thread of a process that looks after the gates of its ranks' streams (gpu_gates.h). It never uses
// the driver, where it could wait for one of these streams; and it outlives communicators, of which something may come
// to a gate after they have ended.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/gpu_gates.h"

namespace tutti {

class GateKeeper {
 public:
  GateKeeper() = default;
  GateKeeper(const GateKeeper&) = delete;
  GateKeeper& operator=(const GateKeeper&) = delete;
  ~GateKeeper();

  // Any thread. Starts the thread with the first of them.
  void add(std::shared_ptr<GpuGates> gates);
  // Nobody makes calls there any more, and from here on nobody is told of any; what streams still wait for after a
  // failure is opened all the same. Not for the keeper's thread.
  void leave(const std::shared_ptr<GpuGates>& gates);
  // There is something to look after.
  void rouse() noexcept {
    if (sleeps_.exchange(false, std::memory_order_seq_cst)) ring();
  }

 private:
  void run();
  void ring() noexcept;

  std::atomic<uint32_t> bell_{0};  // a futex
  std::atomic<bool> sleeps_{false};
  std::atomic<bool> ends_{false};
  std::mutex mutex_;               // guards what follows, and is held while the gates are tended
  std::vector<std::shared_ptr<GpuGates>> all_;  // shared with the GpuCalls of each, which may end before
  std::thread thread_;
};

}  // namespace tutti
