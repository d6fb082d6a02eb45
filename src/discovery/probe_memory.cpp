// Copy and float32 add on one core. Always compiled with optimisation: the figures must not depend on the build type.
#include "discovery/probe_buffer.h"
#include "discovery/probes.h"

namespace tutti {
namespace {

void add(float* __restrict to, const float* __restrict a, const float* __restrict b, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  asm volatile("" : : "r"(to) : "memory");  // the result is used
}

float* floats(const ProbeBuffer& buffer) { return reinterpret_cast<float*>(buffer.data()); }

std::optional<MemoryRates> measure(size_t bytes, size_t cached_bytes) {
  constexpr int kPasses = 4;
  constexpr int kCachedPasses = 8;
  constexpr size_t kCachedPayload = 8 << 20;
  ProbeBuffer a(bytes);
  ProbeBuffer b(bytes);
  ProbeBuffer to(bytes);
  if (a.data() == nullptr || b.data() == nullptr || to.data() == nullptr) return std::nullopt;
  auto add_first = [&](size_t size) { add(floats(to), floats(a), floats(b), size / sizeof(float)); };
  MemoryRates rates;
  rates.copy_bytes_per_s = rate_of(bytes, best_ns(kPasses, [&] { probe_copy(to.data(), a.data(), bytes); }));
  rates.reduce_bytes_per_s = rate_of(bytes, best_ns(kPasses, [&] { add_first(bytes); }));
  size_t repeats = std::max<size_t>(1, kCachedPayload / cached_bytes);
  uint64_t cached_ns = best_ns(kCachedPasses, [&] {
    for (size_t i = 0; i < repeats; ++i) add_first(cached_bytes);
  });
  rates.cached_bytes_per_s = rate_of(repeats * cached_bytes, cached_ns);
  return rates;
}

}  // namespace

std::optional<MemoryRates> probe_memory(int cpu, uint64_t l2_bytes, uint64_t buffer_bytes) {
  // Three arrays fill half of the L2.
  uint64_t cached_bytes = std::min(std::clamp<uint64_t>(l2_bytes / 6, 16 << 10, 1 << 20), buffer_bytes);
  std::optional<MemoryRates> rates;
  run_pinned(cpu, [&] { rates = measure(buffer_bytes, cached_bytes); });
  return rates;
}

}  // namespace tutti
