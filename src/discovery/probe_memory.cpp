// Copy and float32 add on one core. Always compiled with optimisation: the figures must not depend on the build type.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "discovery/pinned.h"
#include "discovery/probes.h"

namespace tutti {
namespace {

// Private memory as an application has it, already touched.
class Buffer {
 public:
  explicit Buffer(size_t count) : count_(count) {
    void* memory = ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    ::madvise(memory, size(), MADV_HUGEPAGE);
    data_ = static_cast<float*>(memory);
    std::fill(data_, data_ + count_, 1.0f);
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() {
    if (data_ != nullptr) ::munmap(data_, size());
  }
  float* data() const { return data_; }
  size_t size() const { return count_ * sizeof(float); }

 private:
  size_t count_;
  float* data_ = nullptr;
};

void add(float* __restrict to, const float* __restrict a, const float* __restrict b, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  asm volatile("" : : "r"(to) : "memory");  // the result is used
}

void copy(float* __restrict to, const float* __restrict from, size_t count) {
  std::memcpy(to, from, count * sizeof(float));
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

std::optional<MemoryRates> measure(size_t count, size_t cached_count) {
  constexpr int kPasses = 4;
  constexpr int kCachedPasses = 8;
  constexpr size_t kCachedPayload = 8 << 20;
  Buffer a(count);
  Buffer b(count);
  Buffer to(count);
  if (a.data() == nullptr || b.data() == nullptr || to.data() == nullptr) return std::nullopt;
  MemoryRates rates;
  rates.copy_bytes_per_s = rate_of(to.size(), best_ns(kPasses, [&] { copy(to.data(), a.data(), count); }));
  rates.reduce_bytes_per_s = rate_of(to.size(), best_ns(kPasses, [&] { add(to.data(), a.data(), b.data(), count); }));
  size_t cached_bytes = cached_count * sizeof(float);
  size_t repeats = std::max<size_t>(1, kCachedPayload / cached_bytes);
  uint64_t cached_ns = best_ns(kCachedPasses, [&] {
    for (size_t i = 0; i < repeats; ++i) add(to.data(), a.data(), b.data(), cached_count);
  });
  rates.cached_bytes_per_s = rate_of(repeats * cached_bytes, cached_ns);
  return rates;
}

}  // namespace

std::optional<MemoryRates> probe_memory(int cpu, uint64_t l2_bytes, uint64_t last_level_bytes) {
  constexpr uint64_t kSmallestBytes = 16 << 20;
  constexpr uint64_t kLargestBytes = 64 << 20;  // three of these are more than nearly every core's share of its caches
  uint64_t bytes = std::clamp(last_level_bytes, kSmallestBytes, kLargestBytes);
  // Three arrays fill half of the L2.
  uint64_t cached_bytes = std::clamp<uint64_t>(l2_bytes / 6, 16 << 10, 1 << 20);
  std::optional<MemoryRates> rates;
  run_pinned(cpu, [&] { rates = measure(bytes / sizeof(float), cached_bytes / sizeof(float)); });
  return rates;
}

}  // namespace tutti
