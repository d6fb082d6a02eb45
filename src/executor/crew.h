// Crew: threads that help the one that advances a rank's calls. They sleep while there is nothing for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tutti {

class Crew {
 public:
  // Starts `helpers` threads on `cpus`, or where this one runs if that is empty; where the system gives fewer, those.
  Crew(int helpers, const std::vector<int>& cpus);
  Crew(const Crew&) = delete;
  ~Crew();

  // Runs `work` here and on every helper that wakes up before it has returned here; returns when none of them is in it
  // any more. One caller at a time. `work` does not throw. The kernel wakes helpers on idle processors, or else behind
  // who wakes them, who then works on for as long as they could have helped: where others do little but wait on the
  // rest of `cpus`, `elsewhere` keeps helpers there until the next run, if there is one for each.
  void run(const std::function<void()>& work, bool elsewhere);

 private:
  static constexpr int kNone = -1;

  void help();
  void leave(int cpu);

  std::mutex mutex_;                             // guards what follows
  std::condition_variable begun_;
  std::condition_variable ended_;
  const std::function<void()>* work_ = nullptr;  // null: there is none
  uint64_t round_ = 0;
  int helping_ = 0;
  bool stops_ = false;
  std::vector<std::thread> helpers_;             // not guarded
  // For run()'s caller alone.
  const std::vector<int> cpus_;
  int left_ = kNone;                             // where helpers do not run
  std::vector<int> others_;
};

}  // namespace tutti
