// The threads that finish calls which nobody waits for: those whose future was asked for, or whose Work was dropped.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti_torch {

class Call;

// For waits that end when they are told to. std::condition_variable::wait(), as GCC 12 compiles it, asks for its own
// libstdc++ or a newer one, which systems lack that torch runs on; wait_for() does not.
inline constexpr auto kForever = std::chrono::hours(24 * 365 * 10);

// What hangs on a future runs in them, and may wait for later calls: there is always a thread for what completes next.
class Watcher : public std::enable_shared_from_this<Watcher> {
 public:
  // Starts the first thread; others follow when all are busy. Throws when there can be none. stop() must follow.
  void start();
  // `call` is complete: a thread finishes it. False when the watcher has stopped. Any thread; does not block or throw.
  bool push(std::shared_ptr<Call> call);
  // Returns when what was pushed is finished; the threads may call it too.
  void stop();
  // All that there are, before the interpreter ends: a thread that asked for its lock later would end the process.
  static void stop_all();

 private:
  void add_thread();
  void try_add_thread() noexcept;
  void run();

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Call>> complete_;  // shared with whoever waits for it meanwhile
  bool is_stopped_ = false;
  size_t idle_ = 0;  // threads that wait for a call, or that begin
  std::vector<std::thread> threads_;
};

}  // namespace tutti_torch
