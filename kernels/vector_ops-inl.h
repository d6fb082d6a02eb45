// ops.h in vectors. Included once per instruction set, hence no #pragma once.
//
// A block is what the elements of one register of bytes become when unpacked: a vector of the same lanes, or for 16-bit floats
// a Pair of float32 vectors.
#if defined(TUTTI_KERNELS_VECTOR_OPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_VECTOR_OPS_INL_H
#undef TUTTI_KERNELS_VECTOR_OPS_INL_H
#else
#define TUTTI_KERNELS_VECTOR_OPS_INL_H
#endif

#include "kernels/divide.h"
#include "kernels/ops.h"
#include "kernels/simd_targets.h"

#include <hwy/highway.h>

#if !TUTTI_NO_VECTORS

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class V>
struct Pair {
  V first;
  V second;
};

// ---------------------------------------------------------------------------------------------------------------- elements

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
    return hn::BitCast(d8, block);
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

  // Expects finished values, whose only NaN is the one that survives the rounding.
  template <class D8, class V>
  HWY_INLINE static auto pack(D8 d8, Pair<V> block) {
    const hn::Repartition<uint32_t, D8> d32;
    const auto odd = hn::And(round(d32, block.second), hn::Set(d32, 0xffff0000u));
    return hn::BitCast(d8, hn::Or(hn::ShiftRight<16>(round(d32, block.first)), odd));
  }

 private:
  template <class D32, class V>
  HWY_INLINE static hn::VFromD<D32> round(D32 d32, V value) {
    const auto bits = hn::BitCast(d32, value);
    const auto last = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
    return hn::Add(bits, hn::Add(last, hn::Set(d32, 0x7fffu)));
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
    return hn::BitCast(d8, hn::Or(narrow(d32, block.first), hn::ShiftLeft<16>(narrow(d32, block.second))));
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
    bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x0f7fffffu)), hn::Or(magnitude, hn::Set(d32, 0x7f800000u)), bits);
    bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, 0x00800000u)), hn::BitCast(d32, small), bits);
    return hn::BitCast(df, hn::Or(sign, bits));
  }

  // Expects finished values, whose only NaN is the positive quiet one.
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
    half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, Scalar::kFirstTooLarge - 1)), hn::Set(d32, 0x7c00u), half);
    half = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d32, 0x7f800000u)), hn::Set(d32, 0x7e00u), half);
    return hn::Or(sign, half);
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
    const hn::Rebind<hwy::float16_t, hn::DFromV<V>> d16;
    const hn::Half<D8> half;
    const auto low = hn::BitCast(half, hn::DemoteTo(d16, block.first));
    const auto high = hn::BitCast(half, hn::DemoteTo(d16, block.second));
    return hn::Combine(d8, high, low);
  }
};

#endif

// -------------------------------------------------------------------------------------------------------------- operations

template <class V>
using Lane = hn::TFromD<hn::DFromV<V>>;

template <class V>
HWY_INLINE auto as_unsigned(V v) {
  return hn::BitCast(hn::RebindToUnsigned<hn::DFromV<V>>(), v);
}

template <class V>
HWY_INLINE V apply(ops::Sum, V a, V b) {
  if constexpr (std::is_floating_point_v<Lane<V>>) {
    return hn::Add(a, b);
  } else {
    return hn::BitCast(hn::DFromV<V>(), hn::Add(as_unsigned(a), as_unsigned(b)));
  }
}

// Highway has no product of 8-bit lanes: multiply the even and the odd ones as 16-bit lanes.
template <class V>
HWY_INLINE V multiply_bytes(V a, V b) {
  const hn::DFromV<V> d;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  const auto a16 = hn::BitCast(d16, a);
  const auto b16 = hn::BitCast(d16, b);
  const auto even = hn::And(hn::Mul(a16, b16), hn::Set(d16, uint16_t{0x00ff}));
  const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16));
  return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
}

template <class V>
HWY_INLINE V apply(ops::Prod, V a, V b) {
  if constexpr (std::is_floating_point_v<Lane<V>>) {
    return hn::Mul(a, b);
  } else if constexpr (sizeof(Lane<V>) == 1) {
    return multiply_bytes(a, b);
  } else {
    return hn::BitCast(hn::DFromV<V>(), hn::Mul(as_unsigned(a), as_unsigned(b)));
  }
}

#if HWY_TARGET == HWY_NEON

HWY_INLINE auto minimum(hn::Vec128<float> a, hn::Vec128<float> b) { return hn::Vec128<float>(vminq_f32(a.raw, b.raw)); }
HWY_INLINE auto minimum(hn::Vec128<double> a, hn::Vec128<double> b) { return hn::Vec128<double>(vminq_f64(a.raw, b.raw)); }
HWY_INLINE auto maximum(hn::Vec128<float> a, hn::Vec128<float> b) { return hn::Vec128<float>(vmaxq_f32(a.raw, b.raw)); }
HWY_INLINE auto maximum(hn::Vec128<double> a, hn::Vec128<double> b) { return hn::Vec128<double>(vmaxq_f64(a.raw, b.raw)); }

#else

// x86's minimum gives its second operand when one is NaN or both are zeros. Of the two orders, the bitwise "or" keeps a NaN, keeps
// the sign of -0, and changes nothing when both are the same.
template <class V>
HWY_INLINE V minimum(V a, V b) {
  return hn::Or(hn::Min(a, b), hn::Min(b, a));
}
template <class V>
HWY_INLINE V maximum(V a, V b) {
  return hn::Neg(minimum(hn::Neg(a), hn::Neg(b)));
}

#endif

template <class V>
HWY_INLINE V apply(ops::Min, V a, V b) {
  if constexpr (std::is_floating_point_v<Lane<V>>) {
    return minimum(a, b);
  } else {
    return hn::Min(a, b);
  }
}

template <class V>
HWY_INLINE V apply(ops::Max, V a, V b) {
  if constexpr (std::is_floating_point_v<Lane<V>>) {
    return maximum(a, b);
  } else {
    return hn::Max(a, b);
  }
}

template <class Op, class V>
HWY_INLINE V combine(Op op, V a, V b) {
  return apply(op, a, b);
}
template <class Op, class V>
HWY_INLINE Pair<V> combine(Op op, Pair<V> a, Pair<V> b) {
  return {apply(op, a.first, b.first), apply(op, a.second, b.second)};
}

// The quotient of 32-bit lanes by the multiplicative inverse, exact for every dividend: Granlund and Montgomery, "Division by
// Invariant Integers using Multiplication", 1994, figure 4.1.
template <class V>
HWY_INLINE V divide_unsigned_words(V value, const Divisor& by) {
  const hn::DFromV<V> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const auto inverse = hn::Set(d, by.inverse32);
  const auto even = hn::ShiftRight<32>(hn::MulEven(value, inverse));
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, value))), inverse);
  const auto high = hn::BitCast(d, hn::Or(even, hn::And(odd, hn::Set(d64, 0xffffffff00000000))));
  return hn::ShiftRightSame(hn::Add(high, hn::ShiftRight<1>(hn::Sub(value, high))), by.shift32);
}

// In 16-bit lanes there is room for the rounded-up inverse itself.
template <class V>
HWY_INLINE V divide_unsigned_bytes(V value, const Divisor& by) {
  const hn::DFromV<V> d;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  const auto inverse = hn::Set(d16, by.inverse8);
  const auto both = hn::BitCast(d16, value);
  const auto even = hn::MulHigh(hn::And(both, hn::Set(d16, uint16_t{0x00ff})), inverse);
  const auto odd = hn::MulHigh(hn::ShiftRight<8>(both), inverse);
  return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
}

template <class V>
HWY_INLINE V divide_unsigned(V value, const Divisor& by) {
  if constexpr (sizeof(Lane<V>) == 1) {
    return divide_unsigned_bytes(value, by);
  } else {
    return divide_unsigned_words(value, by);
  }
}

template <class V>
HWY_INLINE V divide(V value, const Divisor& by) {
  using T = Lane<V>;
  const hn::DFromV<V> d;
  if constexpr (std::is_floating_point_v<T>) {
    if (by.power_of_two) return hn::Mul(value, hn::Set(d, T(1) / static_cast<T>(by.value)));
    return hn::Div(value, hn::Set(d, static_cast<T>(by.value)));
  } else if constexpr (sizeof(T) == 8) {
    HWY_ALIGN T lanes[hn::MaxLanes(d)];
    hn::Store(value, d, lanes);
    divide_each(lanes, hn::MaxLanes(d), by.value);
    return hn::Load(d, lanes);
  } else if constexpr (std::is_signed_v<T>) {
    const auto negative = as_unsigned(hn::VecFromMask(d, hn::Lt(value, hn::Zero(d))));
    const auto magnitude = hn::Sub(hn::Xor(as_unsigned(value), negative), negative);
    return hn::BitCast(d, hn::Sub(hn::Xor(divide_unsigned(magnitude, by), negative), negative));
  } else {
    return divide_unsigned(value, by);
  }
}

template <class V>
HWY_INLINE V finish(V value, const Divisor& by) {
  if (by.value > 1) value = divide(value, by);
  if constexpr (std::is_floating_point_v<Lane<V>>) {
    const hn::DFromV<V> d;
    return hn::IfThenElse(hn::Eq(value, value), value, hn::Set(d, ops::quiet_nan(Lane<V>())));
  } else {
    return value;
  }
}

template <class V>
HWY_INLINE Pair<V> finish(Pair<V> value, const Divisor& by) {
  return {finish(value.first, by), finish(value.second, by)};
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // vectors
#endif  // include guard
