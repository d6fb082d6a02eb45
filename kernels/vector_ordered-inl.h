// Minima and maxima of 8- and 16-bit floats without converting them: as unsigned integers in the order of their values.
// The bits of ops::Min and ops::Max. Included once per instruction set.
#if defined(TUTTI_KERNELS_VECTOR_ORDERED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_VECTOR_ORDERED_INL_H
#undef TUTTI_KERNELS_VECTOR_ORDERED_INL_H
#else
#define TUTTI_KERNELS_VECTOR_ORDERED_INL_H
#endif

#include <limits>
#include <type_traits>

#include "kernels/ops.h"
#include "kernels/simd_targets.h"
#include "kernels/vector_elements-inl.h"

#include <hwy/highway.h>

#if !TUTTI_NO_VECTORS

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

// The elements of Scalar as Op, ops::Min or ops::Max, takes them.
template <class Scalar, class Op>
struct Ordered {
  using Storage = typename Scalar::Storage;
  using Accumulator = Storage;
};

// A positive value's place is its bits, and that of a negative one with the magnitude m is -1 - m: in signed integers
// from the smallest value to the largest one. Ranks are places counted from such a place on that, unsigned, NaNs of
// either sign come behind all numbers for a maximum and before them for a minimum, and so win.
template <class Scalar, class Op>
struct Vectors<Ordered<Scalar, Op>> {
  template <class D8>
  HWY_INLINE static auto unpack(D8, hn::VFromD<D8> bytes) {
    const hn::Repartition<Bits, D8> d;
    const auto stored = hn::BitCast(d, bytes);
    return if_negative(stored, hn::Sub(hn::Set(d, rank(kMagnitude)), stored), hn::Sub(stored, hn::Set(d, kFirst)));
  }

  template <class D8, class V>
  HWY_INLINE static auto pack(D8 d8, V ranks) {
    const hn::DFromV<V> d;
    const auto nan = kIsMax ? hn::Gt(ranks, hn::Set(d, rank(Scalar::kInfinity)))
                            : hn::Lt(ranks, hn::Set(d, rank(~Scalar::kInfinity)));
    if constexpr (Scalar::kLargestResult != Scalar::kInfinity) {
      ranks = hn::Max(ranks, hn::Set(d, rank(~Scalar::kLargestResult)));
      ranks = hn::Min(ranks, hn::Set(d, rank(Scalar::kLargestResult)));
    }
    const auto places = hn::Add(ranks, hn::Set(d, kFirst));
    const auto stored = if_negative(places, hn::Sub(hn::Set(d, kMagnitude), places), places);
    return hn::BitCast(d8, hn::IfThenElse(nan, hn::Set(d, Bits{Scalar::kQuietNan}), stored));
  }

 private:
  using Bits = typename Scalar::Storage;

  static constexpr bool kIsMax = std::is_same_v<Op, ops::Max>;
  static constexpr Bits kMagnitude = std::numeric_limits<std::make_signed_t<Bits>>::max();
  static constexpr Bits kFirst = kIsMax ? Bits(~Scalar::kInfinity) : Bits(Scalar::kInfinity + 1);

  static constexpr Bits rank(int place) { return static_cast<Bits>(place - kFirst); }

  template <class V>
  HWY_INLINE static V if_negative(V v, V yes, V no) {
    const hn::DFromV<V> d;
    const hn::RebindToSigned<decltype(d)> s;
    return hn::BitCast(d, hn::IfNegativeThenElse(hn::BitCast(s, v), hn::BitCast(s, yes), hn::BitCast(s, no)));
  }
};

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // vectors
#endif  // include guard
