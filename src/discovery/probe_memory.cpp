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

struct CachedSizes {
  size_t l2_bytes;
  size_t last_level_bytes;
};

std::optional<MemoryRates> measure(size_t bytes, CachedSizes cached) {
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
  auto copy_first = [&](size_t size) { probe_copy(to.data(), a.data(), size); };
  auto cached_rate = [](size_t size, auto&& pass) {
    size_t repeats = std::max<size_t>(1, kCachedPayload / size);
    uint64_t ns = best_ns(kCachedPasses, [&] {
      for (size_t i = 0; i < repeats; ++i) pass(size);
    });
    return rate_of(repeats * size, ns);
  };
  rates.last_level_bytes_per_s = cached_rate(cached.last_level_bytes, add_first);
  rates.last_level_copy_bytes_per_s = cached_rate(cached.last_level_bytes, copy_first);
  rates.cached_bytes_per_s = cached_rate(cached.l2_bytes, add_first);
  rates.cached_copy_bytes_per_s = cached_rate(cached.l2_bytes, copy_first);
  return rates;
}

}  // namespace

std::optional<MemoryRates> probe_memory(int cpu, CacheSizes caches, uint64_t buffer_bytes) {
  // Three arrays fill half of the cache.
  CachedSizes cached;
  cached.l2_bytes = std::min(std::clamp<uint64_t>(caches.l2_bytes / 6, 16 << 10, 1 << 20), buffer_bytes);
  cached.last_level_bytes = std::clamp<uint64_t>(caches.last_level_bytes / 6, cached.l2_bytes, buffer_bytes);
  std::optional<MemoryRates> rates;
  run_pinned(cpu, [&] { rates = measure(buffer_bytes, cached); });
  return rates;
}

}  // namespace tutti
