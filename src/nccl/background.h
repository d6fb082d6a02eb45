// Threads of this library.
#pragma once

#include <memory>
#include <system_error>
#include <thread>
#include <utility>

namespace tutti::nccl {

// Runs `work`, which is gone before its thread ends; where the system has no thread left, here: then the result is not
// joinable.
template <typename Work>
std::thread start_thread(Work work) {
  auto owned = std::make_unique<Work>(std::move(work));
  try {
    std::thread thread([task = owned.get()] {
      std::unique_ptr<Work> mine(task);
      (*mine)();
    });
    (void)owned.release();
    return thread;
  } catch (const std::system_error&) {
    (*owned)();
    return {};
  }
}

// The same on a thread that nobody joins: what it uses it holds.
template <typename Work>
void run_in_background(Work work) {
  std::thread thread = start_thread(std::move(work));
  if (thread.joinable()) thread.detach();
}

}  // namespace tutti::nccl
