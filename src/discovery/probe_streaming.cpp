// From which size on a copy is quicker with stores that go past the caches, when its result is read next: what they put
// into memory has to come from there again. Always compiled with optimisation.
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "discovery/probe_buffer.h"
#include "discovery/probes.h"
#include "topology/inventory.h"

namespace tutti {
namespace {

// Less stays in the caches, but where other programs use these up just then: calls would take up to three times as long
// afterwards.
constexpr uint64_t kLeastStreamed = 4 << 20;

#ifdef __SSE2__

// Both ways load and store alike, so that only the kind of store makes the difference.
template <typename Store>
void copy_by(Store store, char* to, const char* from, size_t size_bytes) {
  constexpr size_t kLine = 64;
  for (size_t at = 0; at < size_bytes; at += kLine) {
    __m128i parts[kLine / sizeof(__m128i)];
    for (size_t i = 0; i < std::size(parts); ++i) {
      parts[i] = _mm_load_si128(reinterpret_cast<const __m128i*>(from + at) + i);
    }
    for (size_t i = 0; i < std::size(parts); ++i) store(reinterpret_cast<__m128i*>(to + at) + i, parts[i]);
  }
  _mm_sfence();
}

void read(const char* from, size_t size_bytes) {
  __m128i all = _mm_setzero_si128();
  for (size_t at = 0; at < size_bytes; at += sizeof all) {
    all = _mm_or_si128(all, _mm_load_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
  asm volatile("" : : "x"(all));
}

// By most pairs of one right behind the other, so that what disturbs for a while decides nothing; and by at least so
// many percent.
bool streaming_wins(char* to, const char* from, uint64_t size_bytes, uint64_t percent) {
  constexpr int kPairs = 9;
  auto cached = [](__m128i* where, __m128i value) { _mm_store_si128(where, value); };
  auto streaming = [](__m128i* where, __m128i value) { _mm_stream_si128(where, value); };
  auto time_of = [&](auto store) {
    return best_ns(2, [&] {  // the first one finds the result where the other stores have left it
      copy_by(store, to, from, size_bytes);
      read(to, size_bytes);
    });
  };
  int wins = 0;
  for (int i = 0; i < kPairs; ++i) {
    uint64_t streaming_ns = time_of(streaming);
    wins += streaming_ns * 100 < time_of(cached) * (100 - percent);
  }
  return 2 * wins > kPairs;
}

std::optional<uint64_t> measure(uint64_t largest_bytes, uint64_t last_level_bytes) {
  if (largest_bytes < 2 * kLeastStreamed) return std::nullopt;
  ProbeBuffer from(largest_bytes);
  ProbeBuffer to(largest_bytes);
  if (from.data() == nullptr || to.data() == nullptr) return std::nullopt;
  auto trial = [&](uint64_t size_bytes, uint64_t percent) {
    return streaming_wins(to.data(), from.data(), size_bytes, percent);
  };
  return least_streaming_bytes(largest_bytes, last_level_bytes, trial);
}

#else

// The kernels have no such stores here.
std::optional<uint64_t> measure(uint64_t, uint64_t) { return kNeverStreams; }

#endif

}  // namespace

uint64_t least_streaming_bytes(uint64_t largest_bytes, uint64_t last_level_bytes, const StreamingTrial& trial) {
  // Where the last level holds both buffers a copy hardly tells which is quicker, but calls that reduce as much take
  // 1.27 times as long with stores past the caches among 2 ranks, and 1.15 times among 4, as measured.
  constexpr uint64_t kPercentWithin = 10;
  uint64_t least = kNeverStreams;
  for (uint64_t size = largest_bytes; size >= kLeastStreamed; size /= 2) {
    if (!trial(size, 2 * size <= last_level_bytes ? kPercentWithin : 0)) break;
    least = size;
  }
  return least == kNeverStreams && largest_bytes < last_level_bytes ? last_level_bytes : least;
}

std::optional<uint64_t> probe_streaming_bytes(int cpu, uint64_t largest_bytes, uint64_t last_level_bytes) {
  std::optional<uint64_t> bytes;
  run_pinned(cpu, [&] { bytes = measure(largest_bytes, last_level_bytes); });
  return bytes;
}

}  // namespace tutti
