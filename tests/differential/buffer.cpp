#include "buffer.h"

#include <fmt/format.h>
#include <tutti/tutti.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace differential {
namespace {

constexpr size_t kGuardBytes = 192;
constexpr size_t kLineBytes = 64;

void* allocated(Memory memory, size_t size) {
  void* pointer = nullptr;
  if (memory == Memory::kMalloc) {
    pointer = std::aligned_alloc(kLineBytes, (size + kLineBytes - 1) / kLineBytes * kLineBytes);
  } else {
    tutti_mem_alloc(&pointer, size);
  }
  if (pointer != nullptr) return pointer;
  fmt::print(stderr, "{} bytes of memory are not to be had: run with fewer ranks\n", size);
  std::exit(2);
}

}  // namespace

Buffer::Buffer(Memory memory, size_t size_bytes, size_t alignment_bytes, Random& random)
    : memory_(memory), data_at_(kGuardBytes + (random.one_in(2) ? 0 : random.below(kLineBytes / alignment_bytes)) *
                                                  alignment_bytes),
      size_(data_at_ + size_bytes + kGuardBytes),
      base_(static_cast<std::byte*>(allocated(memory, size_))) {}

void Buffer::fill(Random& random) {
  for (size_t at = 0; at < size_; at += sizeof(uint64_t)) {
    uint64_t bytes = random.next();
    std::memcpy(base_ + at, &bytes, std::min(sizeof bytes, size_ - at));
  }
}

Buffer::~Buffer() {
  if (memory_ == Memory::kMalloc) {
    std::free(base_);
  } else {
    tutti_mem_free(base_);
  }
}

}  // namespace differential
