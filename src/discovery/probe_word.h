// A word by which one thread tells another, of this process or in memory that two share.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/deadline.h"

namespace tutti {

struct alignas(128) ProbeWord {
  std::atomic<uint32_t> value{0};
};

// Waits for `word` to reach `value`, `relax()` in between; false at the deadline.
template <typename Relax>
bool await(const ProbeWord& word, uint32_t value, const Deadline& deadline, Relax&& relax) {
  for (uint32_t turns = 1; word.value.load(std::memory_order_acquire) < value; ++turns) {
    if (turns % 1024 == 0 && deadline.passed()) return false;
    relax();
  }
  return true;
}

inline bool await(const ProbeWord& word, uint32_t value, const Deadline& deadline) {
  return await(word, value, deadline, [] {});
}

}  // namespace tutti
