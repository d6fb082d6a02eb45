// The loop around the vector operations: alignment, large and small steps, the last bytes. Included once per
// instruction set.
#if defined(TUTTI_KERNELS_REDUCE_LOOP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_REDUCE_LOOP_INL_H
#undef TUTTI_KERNELS_REDUCE_LOOP_INL_H
#else
#define TUTTI_KERNELS_REDUCE_LOOP_INL_H
#endif

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/partial.h"
#include "kernels/simd_targets.h"
#include "kernels/vector_ops-inl.h"
#include "kernels/vector_ordered-inl.h"
#include "kernels/vector_sums-inl.h"
#include "kernels/vector_tree-inl.h"

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

// The blocks of all sources at one place, for combine_all().
template <class Element>
struct Sources {
  const std::byte* const* pointers;
  size_t at;  // in bytes

  HWY_INLINE const uint8_t* from(size_t j) const { return reinterpret_cast<const uint8_t*>(pointers[j]) + at; }

  template <class D8>
  HWY_INLINE static auto load(D8 d8, const uint8_t* from) {
    return Vectors<Element>::unpack(d8, hn::LoadU(d8, from));
  }
};

// One register.
template <class Element, class D8>
struct SingleLoad : Sources<Element> {
  HWY_INLINE auto operator()(size_t j) const { return this->load(D8(), this->from(j)); }
};

// Four registers: whole cache lines, and enough independent work to hide latencies.
template <class Element, class D8>
struct LongLoad : Sources<Element> {
  HWY_INLINE auto operator()(size_t j) const {
    const D8 d8;
    const size_t n = hn::Lanes(d8);
    const uint8_t* from = this->from(j);
    auto a = this->load(d8, from), b = this->load(d8, from + n);
    auto c = this->load(d8, from + 2 * n), d = this->load(d8, from + 3 * n);
    return Pair<Pair<decltype(a)>>{{a, b}, {c, d}};
  }
};

// The first bytes of 16. Through general registers: a vector load just behind two narrower stores would wait for both.
template <class Element>
struct PartialLoad : Sources<Element> {
  size_t size;

  HWY_INLINE auto operator()(size_t j) const {
    const hn::FixedTag<uint8_t, 16> d8;
    const hn::FixedTag<uint64_t, 2> both;
    const hn::FixedTag<uint64_t, 1> one;
    Words words = load_first_bytes(this->from(j), size);
    const auto joined = hn::Combine(both, hn::Set(one, words.high), hn::Set(one, words.low));
    return Vectors<Element>::unpack(d8, hn::BitCast(d8, joined));
  }
};

template <class Element, class Op>
class Reduction {
 public:
  HWY_INLINE explicit Reduction(const ReduceArgs& args)
      : sources_(args.sources),
        destinations_(args.destinations),
        end_(args.count * sizeof(typename Element::Storage)),
        streamed_(args.streamed),
        divisor_(args.divisor) {}

  // From byte `begin` on.
  HWY_INLINE void run(size_t begin) const {
    finish_short(run_long(begin, false));
    if (streamed_ > 0) hwy::FlushStream();
  }

  HWY_INLINE bool is_plain() const { return destinations_.size() == 1 && streamed_ == 0 && !divides(); }

  // The long steps of a plain reduction of two or four sources from byte `begin` on; returns where they end. Nothing is
  // left to ask in their loop: in the first cache such questions take as long as the operation.
  HWY_INLINE size_t run_plain(size_t begin) const { return run_long(begin, true); }

 private:
  using Bytes = hn::ScalableTag<uint8_t>;
  using Bytes16 = hn::FixedTag<uint8_t, 16>;

  // Of `count` sources.
  template <class D8, class Block>
  HWY_INLINE auto result(D8 d8, Block block, size_t count, bool divides) const {
    if constexpr (std::is_same_v<Op, ops::Sum>) {
      if (HWY_UNLIKELY(divides)) block = divide(block, divisor_);
    }
    if constexpr (kIsSummed<Element>) {
      return Vectors<Element>::pack(d8, block, count);
    } else {
      return Vectors<Element>::pack(d8, block);
    }
  }

  // A block of 8-bit floats is four vectors by itself: independent work enough, and four such blocks would exceed the
  // registers.
  HWY_INLINE void combine_long(Sources<Element> from, size_t count, bool divides, hn::VFromD<Bytes>* results) const {
    const Bytes d8;
    if constexpr (sizeof(typename Element::Accumulator) == 4 * sizeof(typename Element::Storage)) {
      HWY_UNROLL(1)
      for (size_t i = 0; i < 4; ++i) {
        results[i] = combine_single(d8, {from.pointers, from.at + i * hn::Lanes(d8)}, count, divides);
      }
    } else {
      auto four = combine_all<Op>(LongLoad<Element, Bytes>{from}, count);
      results[0] = result(d8, four.first.first, count, divides);
      results[1] = result(d8, four.first.second, count, divides);
      results[2] = result(d8, four.second.first, count, divides);
      results[3] = result(d8, four.second.second, count, divides);
    }
  }

  template <class D8>
  HWY_INLINE auto combine_single(D8 d8, Sources<Element> from, size_t count, bool divides) const {
    return result(d8, combine_all<Op>(SingleLoad<Element, D8>{from}, count), count, divides);
  }

  // Returns where it stopped. Of two and of four sources the compiler knows the number, and keeps the addresses in
  // registers: half the instructions.
  HWY_INLINE size_t run_long(size_t at, bool plain) const {
    if (sources_.size() == 2) {
      const std::byte* const two[] = {sources_[0], sources_[1]};
      return run_long(at, two, 2, plain);
    }
    if (sources_.size() == 4) {
      const std::byte* const four[] = {sources_[0], sources_[1], sources_[2], sources_[3]};
      return run_long(at, four, 4, plain);
    }
    return plain ? at : run_long(at, sources_.data(), sources_.size(), false);
  }

  HWY_INLINE size_t run_long(size_t at, const std::byte* const* sources, size_t count, bool plain) const {
    const Bytes d8;
    const size_t n = hn::Lanes(d8);
    const size_t end = end_;
    std::byte* const first = destinations_[0];
    for (; end - at >= 4 * n; at += 4 * n) {
      hn::VFromD<Bytes> results[4];
      combine_long({sources, at}, count, !plain && divides(), results);
      store_long(results, first + at, !plain && streamed_ > 0);
      if (plain) continue;
      for (size_t i = 1; i < destinations_.size(); ++i) store_long(results, destinations_[i] + at, i < streamed_);
    }
    return at;
  }

  HWY_INLINE bool divides() const { return divisor_.value > 1; }

  HWY_INLINE void store_long(const hn::VFromD<Bytes>* results, std::byte* destination, bool streams) const {
    const Bytes d8;
    const size_t n = hn::Lanes(d8);
    auto* to = reinterpret_cast<uint8_t*>(destination);
    if (HWY_UNLIKELY(streams) && is_line_aligned(to)) {
      hn::Stream(results[0], d8, to);
      hn::Stream(results[1], d8, to + n);
      hn::Stream(results[2], d8, to + 2 * n);
      hn::Stream(results[3], d8, to + 3 * n);
    } else {
      hn::StoreU(results[0], d8, to);
      hn::StoreU(results[1], d8, to + n);
      hn::StoreU(results[2], d8, to + 2 * n);
      hn::StoreU(results[3], d8, to + 3 * n);
    }
  }

  template <class D8>
  HWY_INLINE size_t run_single(D8 d8, size_t at) const {
    const size_t n = hn::Lanes(d8);
    for (; end_ - at >= n; at += n) {
      auto bytes = combine_single(d8, {sources_.data(), at}, sources_.size(), divides());
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
    auto block = combine_all<Op>(PartialLoad<Element>{{sources_.data(), at}, size}, sources_.size());
    Words words = to_words(result(Bytes16(), block, sources_.size(), divides()));
    for (std::byte* destination : destinations_) {
      store_first_bytes(words, reinterpret_cast<uint8_t*>(destination) + at, size);
    }
  }

  HWY_INLINE static Words to_words(hn::VFromD<Bytes16> bytes) {
    const auto words = hn::BitCast(hn::FixedTag<uint64_t, 2>(), bytes);
    return {hn::GetLane(words), hn::GetLane(hn::UpperHalf(hn::FixedTag<uint64_t, 1>(), words))};
  }

  std::span<const std::byte* const> sources_;
  std::span<std::byte* const> destinations_;
  size_t end_;  // in bytes, as every position here
  size_t streamed_;  // destinations
  Divisor divisor_;
};

// In bytes: stores across the border of two lines take longer than a few elements by themselves from here on.
constexpr size_t kLeastAligned = 1024;

// By itself, since its registers would have to be saved for a few elements, too.
template <class Element, class Op>
HWY_NOINLINE size_t reduce_plain(const ReduceArgs& args, size_t begin) {
  const Reduction<Element, Op> reduction(args);
  return reduction.is_plain() ? reduction.run_plain(begin) : begin;
}

template <class Element, class Op>
HWY_NOINLINE void reduce_op(const ReduceArgs& args) {
  constexpr size_t size = sizeof(typename Element::Storage);
  size_t begin = 0;
  if (args.streamed > 0 || args.count * size >= kLeastAligned) {
    begin = std::min<uint64_t>(stream_head(args.destinations, size) / size, args.count) * size;
    if (begin > 0) {
      ReduceArgs head = args;
      head.count = begin / size;
      head.streamed = 0;
      reduce_op<Element, Op>(head);
    }
    begin = reduce_plain<Element, Op>(args, begin);
  }
  Reduction<Element, Op>(args).run(begin);
}

// Narrow floats are compared as they are.
template <class Element, class Op>
using Compared =
    std::conditional_t<sizeof(typename Element::Accumulator) == sizeof(typename Element::Storage), Element,
                       Ordered<Element, Op>>;

template <class Element>
void reduce_sum(const ReduceArgs& args) {
  if constexpr (sizeof(typename Element::Accumulator) == 4 * sizeof(typename Element::Storage)) {
    if (Summed<Element>::takes(args.divisor)) return reduce_op<Summed<Element>, ops::Sum>(args);
  }
  reduce_op<Element, ops::Sum>(args);
}

template <class Element>
void reduce_type(const ReduceArgs& args) {
  switch (args.op) {
    case TUTTI_SUM:
    case TUTTI_AVG: return reduce_sum<Element>(args);
    case TUTTI_PROD: return reduce_op<Element, ops::Prod>(args);
    case TUTTI_MIN: return reduce_op<Compared<Element, ops::Min>, ops::Min>(args);
    case TUTTI_MAX: return reduce_op<Compared<Element, ops::Max>, ops::Max>(args);
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
