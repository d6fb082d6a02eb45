#include "core/forks.h"

#include <pthread.h>

#include <atomic>

#include "executor/buffer_pool.h"

namespace tutti {
namespace {

std::atomic<uint64_t> count{0};

// Other threads may be inside the pool, which the child goes on using.
void before_fork() { BufferPool::of_process().lock(); }
void in_parent() { BufferPool::of_process().unlock(); }
void in_child() {
  BufferPool::of_process().unlock();
  count.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

uint64_t forks() {
  static const int registered = ::pthread_atfork(before_fork, in_parent, in_child);
  (void)registered;
  return count.load(std::memory_order_relaxed);
}

}  // namespace tutti
