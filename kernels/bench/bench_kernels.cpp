// reduce() and copy() against memcpy and a plain loop, over sizes and kinds of stores. bytes_per_second counts the
// bytes of one buffer, so that all rows of one size compare directly.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/kernels.h"

namespace tutti {
namespace {

constexpr size_t kAlignment = 4096;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

// Page-aligned and touched. The values are small numbers in every type.
class Buffers {
 public:
  Buffers(size_t count, size_t size_bytes) {
    for (size_t i = 0; i < count; ++i) {
      const size_t whole = (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
      owned_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)));
      memset(owned_.back().get(), 0x11, whole);
      pointers_.push_back(owned_.back().get());
      const_pointers_.push_back(owned_.back().get());
    }
  }

  std::byte* operator[](size_t i) const { return pointers_[i]; }
  std::span<std::byte* const> all() const { return pointers_; }
  std::span<const std::byte* const> all_const() const { return const_pointers_; }

 private:
  std::vector<std::unique_ptr<std::byte, Free>> owned_;
  std::vector<std::byte*> pointers_;
  std::vector<const std::byte*> const_pointers_;
};

void count_bytes(benchmark::State& state, size_t size_bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * static_cast<int64_t>(size_bytes));
}

// What the compiler makes of a loop: the measure for reduce().
#ifdef __x86_64__
[[gnu::target_clones("default", "avx2")]]
#endif
void plain_loop(float* __restrict to, const float* __restrict a, const float* __restrict b, size_t count) {
  for (size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
}

void BM_plain(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  const Buffers buffers(3, size);
  const auto floats = [&](size_t i) { return reinterpret_cast<float*>(buffers[i]); };
  for (auto _ : state) {
    plain_loop(floats(0), floats(1), floats(2), size / sizeof(float));
    benchmark::ClobberMemory();
  }
  count_bytes(state, size);
}

template <Datatype datatype, ReduceOp op, Store store>
void BM_reduce(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  const auto sources = static_cast<size_t>(state.range(1));
  const auto destinations = static_cast<size_t>(state.range(2));
  const Buffers from(sources, size);
  const Buffers to(destinations, size);
  const ReduceArgs args{.datatype = datatype,
                        .op = op,
                        .sources = from.all_const(),
                        .destinations = to.all(),
                        .count = size / size_of(datatype),
                        .divisor = op == TUTTI_AVG ? 3u : 0u,
                        .store = store};
  for (auto _ : state) {
    reduce(args);
    benchmark::ClobberMemory();
  }
  count_bytes(state, size);
  state.SetLabel(kernel_target());
}

template <Store store>
void BM_copy(benchmark::State& state) {
  const auto size = static_cast<size_t>(state.range(0));
  const Buffers buffers(2, size);
  for (auto _ : state) {
    copy(buffers[0], buffers[1], size, store);
    benchmark::ClobberMemory();
  }
  count_bytes(state, size);
}

constexpr int64_t kLargest = 256 << 20;

void sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({8, 2, 1});
  for (int64_t size = 16; size <= kLargest; size *= 4) benchmark->Args({size, 2, 1});
}

// A block in the level-2 cache and one in memory.
void shapes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t size : {64 << 10, 64 << 20}) {
    for (const int64_t sources : {2, 4, 8}) {
      for (const int64_t destinations : {1, 2, 8}) benchmark->Args({size, sources, destinations});
    }
  }
}

void block_in_cache(benchmark::internal::Benchmark* benchmark) { benchmark->Args({64, 2, 1})->Args({64 << 10, 2, 1}); }

BENCHMARK(BM_copy<Store::kCached>)->Apply(sizes);
BENCHMARK(BM_copy<Store::kStreaming>)->Apply(sizes);
BENCHMARK(BM_plain)->Apply(sizes);
BENCHMARK(BM_reduce<TUTTI_FLOAT32, TUTTI_SUM, Store::kCached>)->Apply(sizes)->Apply(shapes);
BENCHMARK(BM_reduce<TUTTI_FLOAT32, TUTTI_SUM, Store::kStreaming>)->Apply(sizes)->Apply(shapes);

#define TUTTI_BENCH_TYPE(type)                                                   \
  BENCHMARK(BM_reduce<type, TUTTI_SUM, Store::kCached>)->Apply(block_in_cache);  \
  BENCHMARK(BM_reduce<type, TUTTI_PROD, Store::kCached>)->Apply(block_in_cache); \
  BENCHMARK(BM_reduce<type, TUTTI_MAX, Store::kCached>)->Apply(block_in_cache);  \
  BENCHMARK(BM_reduce<type, TUTTI_AVG, Store::kCached>)->Apply(block_in_cache)

TUTTI_BENCH_TYPE(TUTTI_INT8);
TUTTI_BENCH_TYPE(TUTTI_UINT8);
TUTTI_BENCH_TYPE(TUTTI_INT32);
TUTTI_BENCH_TYPE(TUTTI_UINT32);
TUTTI_BENCH_TYPE(TUTTI_INT64);
TUTTI_BENCH_TYPE(TUTTI_UINT64);
TUTTI_BENCH_TYPE(TUTTI_FLOAT16);
TUTTI_BENCH_TYPE(TUTTI_BFLOAT16);
TUTTI_BENCH_TYPE(TUTTI_FLOAT8_E4M3);
TUTTI_BENCH_TYPE(TUTTI_FLOAT8_E5M2);
TUTTI_BENCH_TYPE(TUTTI_FLOAT32);
TUTTI_BENCH_TYPE(TUTTI_FLOAT64);

}  // namespace
}  // namespace tutti

BENCHMARK_MAIN();
