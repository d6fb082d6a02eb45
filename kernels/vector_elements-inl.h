// The element types of ops.h in vectors. Included once per instruction set, hence no #pragma once.
//
// A block is what the elements of one register of bytes become when unpacked: a vector of the same lanes, for 16-bit
// floats a Pair of float32 vectors, for 8-bit floats a Pair of such Pairs. Variables that hold blocks are not const in
// the hot loops: gcc 12 would keep them in memory instead of registers. spread() and collect() are for the narrow
// floats' blocks: as float32 in memory, in the order of the elements. pack() makes every NaN the one quiet NaN, of
// those that arithmetic or unpack() gives.
#if defined(TUTTI_KERNELS_VECTOR_ELEMENTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_VECTOR_ELEMENTS_INL_H
#undef TUTTI_KERNELS_VECTOR_ELEMENTS_INL_H
#else
#define TUTTI_KERNELS_VECTOR_ELEMENTS_INL_H
#endif

#include "kernels/ops.h"
#include "kernels/simd_targets.h"

#include <hwy/highway.h>

#if !TUTTI_NO_VECTORS

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
using Lane = hn::TFromD<hn::DFromV<V>>;

template <class V>
HWY_INLINE auto as_unsigned(V v) {
  return hn::BitCast(hn::RebindToUnsigned<hn::DFromV<V>>(), v);
}

// With constructors, since implicit ones would not be compiled for this instruction set.
template <class Block>
struct Pair {
  HWY_INLINE Pair() {}
  HWY_INLINE Pair(Block a, Block b) : first(a), second(b) {}

  Block first;
  Block second;
};

template <class V>
HWY_INLINE V with_one_nan(V value) {
  if constexpr (std::is_floating_point_v<Lane<V>>) {
    const hn::DFromV<V> d;
    return hn::IfThenElse(hn::Eq(value, value), value, hn::Set(d, ops::quiet_nan(Lane<V>())));
  } else {
    return value;
  }
}

// Blocks whose first vector has the even elements and whose second one has the odd ones.
template <class V>
HWY_INLINE void spread_alternating(Pair<V> block, float* to) {
  hn::StoreInterleaved2(block.first, block.second, hn::DFromV<V>(), to);
}
template <class DF>
HWY_INLINE auto collect_alternating(DF df, const float* from) {
  hn::VFromD<DF> even, odd;
  hn::LoadInterleaved2(df, from, even, odd);
  return Pair<hn::VFromD<DF>>{even, odd};
}

template <class Element>
struct Vectors;

template <class T>
struct Vectors<ops::Plain<T>> {
  template <class D8>
  HWY_INLINE static auto unpack(D8, hn::VFromD<D8> bytes) {
    return hn::BitCast(hn::Repartition<T, D8>(), bytes);
  }
  template <class D8, class V>
  HWY_INLINE static auto pack(D8 d8, V block) {
    return hn::BitCast(d8, with_one_nan(block));
  }
};

// The even elements lie in the low half of each 32-bit lane, the odd ones in the high half.
template <>
struct Vectors<ops::Bfloat16> {
  template <class D8>
  HWY_INLINE static auto unpack(D8, hn::VFromD<D8> bytes) {
    const hn::Repartition<uint32_t, D8> d32;
    const hn::Repartition<float, D8> df;
    const auto both = hn::BitCast(d32, bytes);
    const auto odd = hn::And(both, hn::Set(d32, 0xffff0000u));
    return Pair<hn::VFromD<decltype(df)>>{hn::BitCast(df, hn::ShiftLeft<16>(both)), hn::BitCast(df, odd)};
  }

  // In 16-bit lanes, of the high and of the low halves of all elements.
  template <class D8, class V>
  HWY_INLINE static auto pack(D8 d8, Pair<V> block) {
    const hn::Repartition<uint32_t, D8> d32;
    const hn::Repartition<uint16_t, D8> d16;
    const auto even = hn::BitCast(d32, block.first), odd = hn::BitCast(d32, block.second);
    const auto high = hn::OddEven(hn::BitCast(d16, odd), hn::BitCast(d16, hn::ShiftRight<16>(even)));
    const auto low = hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd)), hn::BitCast(d16, even));
    const auto nan = hn::Set(d16, ops::Bfloat16::kQuietNan);
    return hn::BitCast(d8, hn::IfThenElse(is_nan(d16, high), nan, hn::Add(high, carry(d16, high, low))));
  }

  template <class V>
  HWY_INLINE static void spread(Pair<V> block, float* to) {
    spread_alternating(block, to);
  }
  template <class DF>
  HWY_INLINE static auto collect(DF df, const float* from) {
    return collect_alternating(df, from);
  }

 private:
  // 1 where the low half is above the middle, or there and the last bit odd: the first bit of the average that is
  // rounded up, with 0x7fff or, where the last bit is even, with one less.
  template <class D16, class V>
  HWY_INLINE static V carry(D16 d16, V high, V low) {
    const auto last = hn::And(high, hn::Set(d16, uint16_t{1}));
    return hn::ShiftRight<15>(hn::AverageRound(low, hn::Or(last, hn::Set(d16, uint16_t{0x7ffe}))));
  }

  // Signed, which every processor compares in one instruction.
  template <class D16, class V>
  HWY_INLINE static auto is_nan(D16 d16, V high) {
    const hn::RebindToSigned<D16> d;
    const auto magnitude = hn::BitCast(d, hn::And(high, hn::Set(d16, uint16_t{0x7fff})));
    return hn::RebindMask(d16, hn::Gt(magnitude, hn::Set(d, int16_t{ops::Bfloat16::kInfinity})));
  }
};

#if HWY_TARGET == HWY_SSE4

// No conversion instructions: the steps of ops::Float16, for the even and the odd elements.
template <>
struct Vectors<ops::Float16> {
  template <class D8>
  HWY_INLINE static auto unpack(D8, hn::VFromD<D8> bytes) {
    const hn::Repartition<uint32_t, D8> d32;
    const auto both = hn::BitCast(d32, bytes);
    const auto even = hn::And(both, hn::Set(d32, 0xffffu));
    return Pair<hn::VFromD<hn::Repartition<float, D8>>>{widen(d32, even), widen(d32, hn::ShiftRight<16>(both))};
  }

  template <class D8, class V>
  HWY_INLINE static auto pack(D8 d8, Pair<V> block) {
    const hn::Repartition<uint32_t, D8> d32;
    return join(d8, narrow(d32, block.first), narrow(d32, block.second));
  }

  template <class D8, class V>
  HWY_INLINE static auto demote(D8 d8, Pair<V> block) {
    return pack(d8, block);
  }

  // Of the low halves of 32-bit lanes, in the order of unpack().
  template <class D8, class V>
  HWY_INLINE static auto join(D8 d8, V first, V second) {
    return hn::BitCast(d8, hn::Or(first, hn::ShiftLeft<16>(second)));
  }

  template <class V>
  HWY_INLINE static void spread(Pair<V> block, float* to) {
    spread_alternating(block, to);
  }
  template <class DF>
  HWY_INLINE static auto collect(DF df, const float* from) {
    return collect_alternating(df, from);
  }
  // Two such blocks, of the even elements and of the odd ones.
  template <class V>
  HWY_INLINE static void spread(Pair<Pair<V>> block, float* to) {
    hn::StoreInterleaved4(block.first.first, block.second.first, block.first.second, block.second.second,
                          hn::DFromV<V>(), to);
  }
  template <class DF>
  HWY_INLINE static auto collect_both(DF df, const float* from) {
    using V = hn::VFromD<DF>;
    V a, b, c, d;
    hn::LoadInterleaved4(df, from, a, b, c, d);
    return Pair<Pair<V>>{Pair<V>{a, c}, Pair<V>{b, d}};
  }

 private:
  using Scalar = ops::Float16;

  template <class D32>
  HWY_INLINE static auto widen(D32 d32, hn::VFromD<D32> stored) {
    const hn::RebindToFloat<D32> df;
    const auto sign = hn::ShiftLeft<16>(hn::And(stored, hn::Set(d32, 0x8000u)));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(stored, hn::Set(d32, 0x7fffu)));
    const auto offset = hn::Set(d32, Scalar::kSubnormalOffset);
    const auto small = hn::Sub(hn::BitCast(df, hn::Add(magnitude, offset)), hn::BitCast(df, offset));
    auto bits = hn::Add(magnitude, hn::Set(d32, Scalar::kExponentOffset));
    bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x0f7fffffu)), hn::Or(magnitude, hn::Set(d32, 0x7f800000u)),
                          bits);
    bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, 0x00800000u)), hn::BitCast(d32, small), bits);
    return hn::BitCast(df, hn::Or(sign, bits));
  }

  template <class D32, class V>
  HWY_INLINE static hn::VFromD<D32> narrow(D32 d32, V value) {
    const hn::RebindToFloat<D32> df;
    const auto bits = hn::BitCast(d32, value);
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 0x8000u));
    const auto magnitude = hn::And(bits, hn::Set(d32, 0x7fffffffu));
    const auto magic = hn::Set(d32, Scalar::kSubnormalMagic);
    const auto small = hn::Sub(hn::BitCast(d32, hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, magic))), magic);
    const auto last = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d32, 1u));
    const auto rebased = hn::Sub(magnitude, hn::Set(d32, Scalar::kExponentOffset - 0xfff));
    auto half = hn::ShiftRight<13>(hn::Add(rebased, last));
    half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, Scalar::kSubnormalOffset)), small, half);
    half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, Scalar::kFirstTooLarge - 1)),
                          hn::Set(d32, uint32_t{Scalar::kInfinity}), half);
    return hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x7f800000u)), hn::Set(d32, uint32_t{Scalar::kQuietNan}),
                          hn::Or(sign, half));
  }
};

#else

// The instructions (F16C, NEON) round to nearest even and keep subnormals.
template <>
struct Vectors<ops::Float16> {
  template <class D8>
  HWY_INLINE static auto unpack(D8, hn::VFromD<D8> bytes) {
    const hn::Repartition<float, D8> df;
    const hn::Rebind<hwy::float16_t, decltype(df)> d16;
    const hn::Half<D8> half;
    const auto low = hn::BitCast(d16, hn::LowerHalf(half, bytes));
    const auto high = hn::BitCast(d16, hn::UpperHalf(half, bytes));
    return Pair<hn::VFromD<decltype(df)>>{hn::PromoteTo(df, low), hn::PromoteTo(df, high)};
  }

  template <class D8, class V>
  HWY_INLINE static auto pack(D8 d8, Pair<V> block) {
    return demote(d8, Pair<V>{with_one_nan(block.first), with_one_nan(block.second)});
  }

  // Any NaN becomes some NaN.
  template <class D8, class V>
  HWY_INLINE static auto demote(D8 d8, Pair<V> block) {
    const hn::Rebind<hwy::float16_t, hn::DFromV<V>> d16;
    const hn::Half<D8> half;
    const auto low = hn::BitCast(half, hn::DemoteTo(d16, block.first));
    const auto high = hn::BitCast(half, hn::DemoteTo(d16, block.second));
    return hn::Combine(d8, high, low);
  }

  // Of the low halves of 32-bit lanes, in the order of unpack().
  template <class D8, class V>
  HWY_INLINE static auto join(D8 d8, V first, V second) {
    const hn::Repartition<uint16_t, D8> d16;
    return hn::BitCast(d8, hn::ConcatEven(d16, hn::BitCast(d16, second), hn::BitCast(d16, first)));
  }

  template <class V>
  HWY_INLINE static void spread(Pair<V> block, float* to) {
    const hn::DFromV<V> df;
    hn::StoreU(block.first, df, to);
    hn::StoreU(block.second, df, to + hn::Lanes(df));
  }
  template <class DF>
  HWY_INLINE static auto collect(DF df, const float* from) {
    return Pair<hn::VFromD<DF>>{hn::LoadU(df, from), hn::LoadU(df, from + hn::Lanes(df))};
  }
  // Two such blocks, of the even elements and of the odd ones.
  template <class V>
  HWY_INLINE static void spread(Pair<Pair<V>> block, float* to) {
    spread_alternating(Pair<V>{block.first.first, block.second.first}, to);
    spread_alternating(Pair<V>{block.first.second, block.second.second}, to + 2 * hn::Lanes(hn::DFromV<V>()));
  }
  template <class DF>
  HWY_INLINE static auto collect_both(DF df, const float* from) {
    using V = hn::VFromD<DF>;
    const Pair<V> low = collect_alternating(df, from);
    const Pair<V> high = collect_alternating(df, from + 2 * hn::Lanes(df));
    return Pair<Pair<V>>{Pair<V>{low.first, high.first}, Pair<V>{low.second, high.second}};
  }
};

#endif

// By way of float16, which holds every value of e5m2, and every value of e4m3 divided by a power of two. The even
// elements lie in the low bytes of 16-bit lanes, the odd ones in the high bytes.
template <class Scalar>
struct Float8Vectors {
  template <class D8>
  HWY_INLINE static auto unpack(D8 d8, hn::VFromD<D8> bytes) {
    auto both = halves(d8, bytes);
    return Pair<Floats<D8>>{widen(d8, both.first), widen(d8, both.second)};
  }

  // As the float16s that have the same fields, the even and the odd ones. Those of e4m3 have no NaN.
  template <class D8>
  HWY_INLINE static auto halves(D8, hn::VFromD<D8> bytes) {
    const hn::Repartition<uint16_t, D8> d16;
    const auto odd = hn::BitCast(d16, bytes);
    const auto even = hn::ShiftLeft<8>(odd);
    if constexpr (std::is_same_v<Scalar, ops::Float8E5m2>) {
      return Pair<hn::VFromD<decltype(d16)>>{even, hn::And(odd, hn::Set(d16, uint16_t{0xff00}))};
    } else {
      return Pair<hn::VFromD<decltype(d16)>>{below_sign(even), below_sign(odd)};
    }
  }

  template <class D8, class V>
  HWY_INLINE static auto pack(D8 d8, Pair<Pair<V>> block) {
    return Halves::join(d8, narrow(block.first.first, block.second.first),
                        narrow(block.first.second, block.second.second));
  }

  template <class V>
  HWY_INLINE static void spread(Pair<Pair<V>> block, float* to) {
    Halves::spread(block, to);
  }
  template <class DF>
  HWY_INLINE static auto collect(DF df, const float* from) {
    return Halves::collect_both(df, from);
  }

 private:
  using Halves = Vectors<ops::Float16>;
  template <class D8>
  using Floats = Pair<hn::VFromD<hn::Repartition<float, D8>>>;

  // The high byte, its fields one to the right of where they were.
  template <class V>
  HWY_INLINE static V below_sign(V stored) {
    const hn::DFromV<V> d16;
    const auto shifted = hn::ShiftRight<1>(hn::BitCast(hn::RebindToSigned<decltype(d16)>(), stored));
    return hn::And(as_unsigned(shifted), hn::Set(d16, uint16_t{0xbf80}));
  }

  template <class D8, class V>
  HWY_INLINE static Floats<D8> widen(D8 d8, V half) {
    if constexpr (std::is_same_v<Scalar, ops::Float8E5m2>) {
      return Halves::unpack(d8, hn::BitCast(d8, half));
    } else {
      const hn::DFromV<V> d16;
      // A one added at the last place carries into the free bit when exponent and mantissa are all ones.
      const auto carried = hn::Add(half, hn::Set(d16, uint16_t{0x0080}));
      const auto with_nan = hn::Or(half, hn::And(carried, hn::Set(d16, uint16_t{0x4000})));
      const auto scaled = Halves::unpack(d8, hn::BitCast(d8, with_nan));
      const auto scale = hn::Set(hn::Repartition<float, D8>(), Scalar::kHalfScale);
      return {hn::Mul(scaled.first, scale), hn::Mul(scaled.second, scale)};
    }
  }

  // In the low halves of 32-bit lanes.
  template <class V>
  HWY_INLINE static auto narrow(V even, V odd) {
    return hn::Or(narrow(even), hn::ShiftLeft<8>(narrow(odd)));
  }

  // Adding a power of two rounds at the last place that the value has as an 8-bit float, which is always the same below
  // the smallest normal one. What it adds to the bits is the mantissa with its leading one, and that one counts as the
  // first step of the exponent. In signed lanes, which every processor compares in one instruction.
  template <class V>
  HWY_INLINE static auto narrow(V value) {
    const hn::DFromV<V> df;
    const hn::RebindToSigned<decltype(df)> d32;
    const auto set = [d32](uint32_t bits) HWY_ATTR { return hn::Set(d32, static_cast<int32_t>(bits)); };
    const auto finite = hn::Min(hn::Abs(value), hn::BitCast(df, set(Scalar::kLargest)));
    const auto binade = hn::And(hn::BitCast(d32, finite), set(0x7f800000));
    const auto exponent = hn::Max(binade, set(Scalar::kSmallestNormal));
    const auto magic = hn::Add(exponent, set(Scalar::kShift << 23));
    const auto rounded = hn::BitCast(d32, hn::Add(finite, hn::BitCast(df, magic)));
    const auto steps = hn::ShiftRight<Scalar::kShift>(hn::Sub(exponent, set(Scalar::kSmallestNormal)));
    const auto code = hn::Add(hn::Sub(rounded, magic), steps);
    const auto sign = hn::And(hn::ShiftRight<24>(hn::BitCast(d32, value)), set(0x80));
    const auto is_number = hn::RebindMask(d32, hn::Eq(value, value));
    return as_unsigned(hn::IfThenElse(is_number, hn::Or(code, sign), set(Scalar::kQuietNan)));
  }
};

template <>
struct Vectors<ops::Float8E4m3> : Float8Vectors<ops::Float8E4m3> {};
template <>
struct Vectors<ops::Float8E5m2> : Float8Vectors<ops::Float8E5m2> {};

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // vectors
#endif  // include guard
