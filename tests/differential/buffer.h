// Memory that a call is given, with guards around what the call may touch.
#pragma once

#include <cstddef>
#include <span>

#include "random.h"

namespace differential {

enum class Memory { kMalloc, kTutti };

class Buffer {
 public:
  // `size_bytes` at an address that is a multiple of `alignment_bytes` and of no more, mostly.
  Buffer(Memory memory, size_t size_bytes, size_t alignment_bytes, Random& random);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // With random bytes, the guards too.
  void fill(Random& random);
  Memory memory() const { return memory_; }
  // What the call is given.
  std::byte* data() { return base_ + data_at_; }
  size_t data_at() const { return data_at_; }
  // With the guards.
  std::span<std::byte> all() { return {base_, size_}; }

 private:
  Memory memory_;
  size_t data_at_;
  size_t size_;
  std::byte* base_ = nullptr;
};

}  // namespace differential
