#include "core/forks.h"

#include <pthread.h>

#include <atomic>

namespace tutti {
namespace {

std::atomic<uint64_t> count{0};

void count_fork() { count.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

uint64_t forks() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, count_fork);
  (void)registered;
  return count.load(std::memory_order_relaxed);
}

}  // namespace tutti
