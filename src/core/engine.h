// Engine: the one thread of a process that makes progress for calls nobody waits for. It starts with the first such
// call and sleeps while there is nothing to do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "core/links.h"
#include "core/turn_lock.h"

namespace tutti {

class Communicator;

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> create();
  ~Engine();

  // Starts the thread if that was not done; before the first add(). Any thread. Errors: there is no thread to be had.
  Status start();
  // From now on the thread runs on those CPUs that this process may use. Any thread.
  void use_cpus(std::vector<int> cpus);
  // `communicator` has calls to make progress on. Any thread.
  void add(Communicator* communicator);
  // Returns when the engine does not touch `communicator` any more. Any thread but the engine's.
  void remove(Communicator* communicator);
  // Makes the engine give up its turns if it sleeps. Any thread.
  void ring();

 private:
  explicit Engine(Fd wake) : wake_(std::move(wake)) {}
  void run();
  bool advance_all();
  void sleep();
  // Fills round_ with what is active; those without calls are dropped.
  void begin_round();
  void end_round();

  Fd wake_;                             // eventfd: something was added or the engine ends
  std::atomic<bool> rung_{false};       // since the last sleep: once is enough
  std::mutex mutex_;                    // guards what follows
  std::condition_variable idle_;        // between two rounds
  std::vector<Communicator*> active_;
  bool in_round_ = false;
  uint64_t rounds_ = 0;                 // that have ended
  bool stop_ = false;
  std::thread thread_;
  std::vector<int> cpus_;               // empty: where the thread runs that has started it

  // Of the thread, kept from round to round so that it allocates nothing.
  std::vector<Communicator*> round_;
  std::vector<std::unique_lock<TurnLock>> turns_;
  std::vector<Communicator*> held_;  // whose turns these are
  std::vector<Links::Armed> armed_;
  WaitSet waits_;
};

}  // namespace tutti
