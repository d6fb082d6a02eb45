#include "kernels/bench/limits.h"

#include "kernels/instruction_set.h"

#define HWY_TARGET_INCLUDE "kernels/bench/limits.cpp"
#include <hwy/foreach_target.h>

#include "base/check.h"
#include "kernels/vector_elements-inl.h"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

#if TUTTI_NO_VECTORS

void move(const ReduceArgs& args) { reduce_scalar(args); }
void convert(const ReduceArgs& args) { reduce_scalar(args); }

#else

template <class V>
HWY_INLINE V either(V a, V b) {
  return hn::Or(a, b);
}
template <class Block>
HWY_INLINE Pair<Block> either(Pair<Block> a, Pair<Block> b) {
  return {either(a.first, b.first), either(a.second, b.second)};
}

// The pointers are copied, since gcc would load them again after every store.
template <class Element, size_t kSources, size_t kDestinations, Store store>
HWY_NOINLINE void pass(const ReduceArgs& args) {
  const hn::ScalableTag<uint8_t> d8;
  const uint8_t* from[kSources];
  uint8_t* to[kDestinations];
  for (size_t j = 0; j < kSources; ++j) from[j] = reinterpret_cast<const uint8_t*>(args.sources[j]);
  for (size_t j = 0; j < kDestinations; ++j) to[j] = reinterpret_cast<uint8_t*>(args.destinations[j]);
  const size_t size = args.count * sizeof(typename Element::Storage);
  const size_t n = hn::Lanes(d8);
  const auto load = [&](size_t j, size_t at)
                        HWY_ATTR { return Vectors<Element>::unpack(d8, hn::Load(d8, from[j] + at)); };
  for (size_t begin = 0; begin < size; begin += 4 * n) {
    hn::VFromD<decltype(d8)> results[4];
    for (size_t i = 0; i < 4; ++i) {
      auto block = either(load(0, begin + i * n), load(1, begin + i * n));
      if constexpr (kSources == 4) block = either(block, either(load(2, begin + i * n), load(3, begin + i * n)));
      results[i] = Vectors<Element>::pack(d8, block);
    }
    for (size_t j = 0; j < kDestinations; ++j) {
      for (size_t i = 0; i < 4; ++i) {
        if constexpr (store == Store::kStreaming) {
          hn::Stream(results[i], d8, to[j] + begin + i * n);
        } else {
          hn::Store(results[i], d8, to[j] + begin + i * n);
        }
      }
    }
  }
  if constexpr (store == Store::kStreaming) hwy::FlushStream();
}

template <class Element, size_t kSources, size_t kDestinations>
void pass_stores(const ReduceArgs& args) {
  if (args.streamed > 0) return pass<Element, kSources, kDestinations, Store::kStreaming>(args);
  pass<Element, kSources, kDestinations, Store::kCached>(args);
}

template <class Element>
void pass_shapes(const ReduceArgs& args) {
  const size_t sources = args.sources.size(), destinations = args.destinations.size();
  if (sources == 2 && destinations == 1) return pass_stores<Element, 2, 1>(args);
  if (sources == 4 && destinations == 1) return pass_stores<Element, 4, 1>(args);
  TUTTI_CHECK(sources == 2 && destinations == 2);
  pass_stores<Element, 2, 2>(args);
}

void move(const ReduceArgs& args) {
  ReduceArgs bytes = args;
  bytes.count *= size_of(args.datatype);
  pass_shapes<ops::Plain<uint8_t>>(bytes);
}

void convert(const ReduceArgs& args) {
  switch (args.datatype) {
    case TUTTI_FLOAT16: return pass_shapes<ops::Float16>(args);
    case TUTTI_BFLOAT16: return pass_shapes<ops::Bfloat16>(args);
    case TUTTI_FLOAT8_E4M3: return pass_shapes<ops::Float8E4m3>(args);
    case TUTTI_FLOAT8_E5M2: return pass_shapes<ops::Float8E5m2>(args);
    default: TUTTI_CHECK(size_of(args.datatype) <= 2 && !is_integer(args.datatype));
  }
}

#endif

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

void move(const ReduceArgs& args) { TUTTI_KERNEL(move)(args); }
void convert(const ReduceArgs& args) { TUTTI_KERNEL(convert)(args); }

}  // namespace tutti
#endif
