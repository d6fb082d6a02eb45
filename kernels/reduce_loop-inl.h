// The loop around the vector operations: alignment, large and small steps, the last bytes. Included once per
// instruction set.
#if defined(TUTTI_KERNELS_REDUCE_LOOP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_REDUCE_LOOP_INL_H
#undef TUTTI_KERNELS_REDUCE_LOOP_INL_H
#else
#define TUTTI_KERNELS_REDUCE_LOOP_INL_H
#endif

#include <algorithm>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/partial.h"
#include "kernels/simd_targets.h"
#include "kernels/vector_ops-inl.h"

#include <hwy/cache_control.h>

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

#if TUTTI_NO_VECTORS

template <class Element>
void reduce_type(const ReduceArgs& args) {
  reduce_scalar(args);
}

template <class Element>
void reduce_bitwise(const ReduceArgs& args) {
  reduce_scalar(args);
}

#else

template <class Element, class Op>
class Reduction {
 public:
  HWY_INLINE explicit Reduction(const ReduceArgs& args)
      : sources_(args.sources),
        destinations_(args.destinations),
        end_(args.count * sizeof(typename Element::Storage)),
        stream_(args.store == Store::kStreaming),
        divisor_(args.divisor) {}

  // From byte `begin` on.
  HWY_INLINE void run(size_t begin) const {
    finish_short(run_long(begin));
    if (stream_) hwy::FlushStream();
  }

 private:
  using Bytes = hn::ScalableTag<uint8_t>;
  using Bytes16 = hn::FixedTag<uint8_t, 16>;

  HWY_INLINE const uint8_t* source(size_t j, size_t at) const {
    return reinterpret_cast<const uint8_t*>(sources_[j]) + at;
  }

  template <class D8>
  HWY_INLINE static auto load(D8 d8, const uint8_t* from) {
    return Vectors<Element>::unpack(d8, hn::LoadU(d8, from));
  }

  template <class D8, class Block>
  HWY_INLINE auto result(D8 d8, Block block) const {
    return Vectors<Element>::pack(d8, finish(block, divisor_));
  }

  // Steps of four registers: whole cache lines, and enough independent work to hide latencies. Returns where it
  // stopped.
  HWY_INLINE size_t run_long(size_t at) const {
    const Bytes d8;
    const size_t n = hn::Lanes(d8);
    for (; end_ - at >= 4 * n; at += 4 * n) {
      const uint8_t* from = source(0, at);
      auto a = load(d8, from), b = load(d8, from + n), c = load(d8, from + 2 * n), d = load(d8, from + 3 * n);
      for (size_t j = 1; j < sources_.size(); ++j) {
        from = source(j, at);
        a = combine(Op(), a, load(d8, from));
        b = combine(Op(), b, load(d8, from + n));
        c = combine(Op(), c, load(d8, from + 2 * n));
        d = combine(Op(), d, load(d8, from + 3 * n));
      }
      const auto ra = result(d8, a), rb = result(d8, b), rc = result(d8, c), rd = result(d8, d);
      for (std::byte* destination : destinations_) {
        auto* to = reinterpret_cast<uint8_t*>(destination) + at;
        if (stream_ && is_line_aligned(to)) {
          hn::Stream(ra, d8, to);
          hn::Stream(rb, d8, to + n);
          hn::Stream(rc, d8, to + 2 * n);
          hn::Stream(rd, d8, to + 3 * n);
        } else {
          hn::StoreU(ra, d8, to);
          hn::StoreU(rb, d8, to + n);
          hn::StoreU(rc, d8, to + 2 * n);
          hn::StoreU(rd, d8, to + 3 * n);
        }
      }
    }
    return at;
  }

  template <class D8>
  HWY_INLINE size_t run_single(D8 d8, size_t at) const {
    const size_t n = hn::Lanes(d8);
    for (; end_ - at >= n; at += n) {
      auto block = load(d8, source(0, at));
      for (size_t j = 1; j < sources_.size(); ++j) block = combine(Op(), block, load(d8, source(j, at)));
      const auto bytes = result(d8, block);
      for (std::byte* destination : destinations_) hn::StoreU(bytes, d8, reinterpret_cast<uint8_t*>(destination) + at);
    }
    return at;
  }

  // Less than a long step: single registers, then 16 bytes, then the rest of them.
  HWY_INLINE void finish_short(size_t at) const {
    at = run_single(Bytes(), at);
    if constexpr (hn::MaxLanes(Bytes()) > 16) at = run_single(Bytes16(), at);
    if (at == end_) return;
    const size_t size = end_ - at;
    auto block = load_partial(source(0, at), size);
    for (size_t j = 1; j < sources_.size(); ++j) block = combine(Op(), block, load_partial(source(j, at), size));
    const Words words = to_words(result(Bytes16(), block));
    for (std::byte* destination : destinations_) {
      store_first_bytes(words, reinterpret_cast<uint8_t*>(destination) + at, size);
    }
  }

  // Through general registers: a vector load just behind two narrower stores would wait for both.
  HWY_INLINE static auto load_partial(const uint8_t* from, size_t size) {
    const hn::FixedTag<uint64_t, 2> both;
    const hn::FixedTag<uint64_t, 1> one;
    const Words words = load_first_bytes(from, size);
    const auto joined = hn::Combine(both, hn::Set(one, words.high), hn::Set(one, words.low));
    return Vectors<Element>::unpack(Bytes16(), hn::BitCast(Bytes16(), joined));
  }

  HWY_INLINE static Words to_words(hn::VFromD<Bytes16> bytes) {
    const auto words = hn::BitCast(hn::FixedTag<uint64_t, 2>(), bytes);
    return {hn::GetLane(words), hn::GetLane(hn::UpperHalf(hn::FixedTag<uint64_t, 1>(), words))};
  }

  std::span<const std::byte* const> sources_;
  std::span<std::byte* const> destinations_;
  size_t end_;  // in bytes, as every position here
  bool stream_;
  Divisor divisor_;
};

template <class Element, class Op>
HWY_NOINLINE void reduce_op(const ReduceArgs& args) {
  size_t begin = 0;
  if (args.store == Store::kStreaming) {
    constexpr size_t size = sizeof(typename Element::Storage);
    ReduceArgs head = args;
    head.count = std::min<uint64_t>(stream_head(args.destinations, size) / size, args.count);
    head.store = Store::kCached;
    reduce_op<Element, Op>(head);
    begin = head.count * size;
  }
  Reduction<Element, Op>(args).run(begin);
}

template <class Element>
void reduce_type(const ReduceArgs& args) {
  switch (args.op) {
    case TUTTI_SUM:
    case TUTTI_AVG: return reduce_op<Element, ops::Sum>(args);
    case TUTTI_PROD: return reduce_op<Element, ops::Prod>(args);
    case TUTTI_MIN: return reduce_op<Element, ops::Min>(args);
    case TUTTI_MAX: return reduce_op<Element, ops::Max>(args);
    default: TUTTI_CHECK(is_valid(args.op) && !is_bitwise(args.op));
  }
}

template <class Element>
void reduce_bitwise(const ReduceArgs& args) {
  switch (args.op) {
    case TUTTI_BAND: return reduce_op<Element, ops::BitAnd>(args);
    case TUTTI_BOR: return reduce_op<Element, ops::BitOr>(args);
    case TUTTI_BXOR: return reduce_op<Element, ops::BitXor>(args);
    default: TUTTI_CHECK(is_bitwise(args.op));
  }
}

#endif

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
