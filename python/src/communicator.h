// One tutti communicator: how its ranks meet, what becomes of its errors, and how it ends.
#pragma once

#include <sys/types.h>
#include <tutti/tutti.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "watcher.h"

namespace tutti_torch {

using Milliseconds = std::chrono::milliseconds;
using Settings = std::map<std::string, std::string>;  // options of tutti, by name

// Shared by the backend and by the calls that are under way or not waited for.
class Communicator {
 public:
  // Meets the other ranks through `store`, which is this group's alone. Blocks until all have come or `timeout` passes.
  static std::shared_ptr<Communicator> create(c10d::Store& store, int rank, int size, Milliseconds timeout,
                                              const Settings& settings);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // While one exists the communicator is not destroyed, and while one for a call does it is not finalized.
  class Use {
   public:
    enum class For : uint8_t {
      kCall,  // throws when it was shut down
      kWait   // if it is being destroyed, blocks until that is done: requests can be taken afterwards
    };
    Use(Communicator& communicator, For what);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    // Null when it is destroyed.
    tutti_comm_t* comm() const { return is_destroyed_ ? nullptr : communicator_.comm_; }

   private:
    Communicator& communicator_;
    const For what_;
    bool is_destroyed_ = false;
  };

  // A call is started (while there is a Use for it), or is complete: close() waits for those that are not. Any thread.
  void call_started() { under_way_.fetch_add(1, std::memory_order_seq_cst); }
  void call_completed();

  // The same on all ranks, and never again.
  const std::string& name() const { return name_; }
  // What a call waits at most, if it does not say otherwise.
  Milliseconds timeout() const { return timeout_; }
  // tutti's sentence for a status that one of its calls has just returned in this thread.
  std::string sentence() const;

  Watcher& watcher() { return *watcher_; }
  // Any thread; does not block.
  void abort();
  // TUTTI_SUCCESS while it works. Any thread.
  tutti_status_t status() const;
  // Waits for this rank's calls, and then for the other ranks to do the same. In a forked child: forgets it.
  void close();
  // The same when nobody asked for it: aborts first if calls are under way, as when an exception ends the program.
  void drop();

 private:
  Communicator(tutti_comm_t* comm, Milliseconds timeout, std::shared_ptr<Watcher> watcher);
  void leave();
  void announce();

  tutti_comm_t* const comm_;
  const std::string name_;
  const Milliseconds timeout_;
  const pid_t process_;
  const std::shared_ptr<Watcher> watcher_;  // its threads own it too
  std::atomic<int> users_{0};      // Uses for waits
  std::atomic<int> under_way_{0};  // calls, and Uses for them
  std::atomic<bool> closing_{false};     // no more calls
  std::atomic<bool> destroying_{false};  // no more waits
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  enum class State : uint8_t { kOpen, kDestroying, kDestroyed };
  State state_ = State::kOpen;
};

// Throws a DistBackendError that holds tutti's sentence. A timeout says so in torch's words as well.
[[noreturn]] void raise(tutti_status_t status, const std::string& what, const std::string& sentence,
                        Milliseconds timeout);

}  // namespace tutti_torch
