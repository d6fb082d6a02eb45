// Memory to measure on, and how a pass over it is timed.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "discovery/pinned.h"

namespace tutti {

// Private memory as an application has it, touched by the thread that makes it: in huge pages only where the host gives
// them to everyone, since the kernel reads another process's memory page by page. data() is null when there is too
// little.
class ProbeBuffer {
 public:
  explicit ProbeBuffer(size_t size_bytes) : size_(size_bytes) {
    void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    data_ = static_cast<char*>(memory);
    std::memset(data_, 1, size_);
  }
  ProbeBuffer(const ProbeBuffer&) = delete;
  ~ProbeBuffer() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  char* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  size_t size_;
  char* data_ = nullptr;
};

// memcpy whose result counts as used.
inline void probe_copy(char* to, const char* from, size_t size_bytes) {
  std::memcpy(to, from, size_bytes);
  asm volatile("" : : "r"(to) : "memory");
}

// The quickest of some passes: the others were disturbed.
template <typename Pass>
uint64_t best_ns(int passes, Pass&& pass) {
  uint64_t best = std::numeric_limits<uint64_t>::max();
  for (int i = 0; i < passes; ++i) {
    auto start = Clock::now();
    pass();
    best = std::min(best, ns_since(start));
  }
  return best;
}

}  // namespace tutti
