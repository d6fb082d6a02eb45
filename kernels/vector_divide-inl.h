// Divisor::value as a vector operation: the bits of ops::divide(). Included once per instruction set.
#if defined(TUTTI_KERNELS_VECTOR_DIVIDE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_VECTOR_DIVIDE_INL_H
#undef TUTTI_KERNELS_VECTOR_DIVIDE_INL_H
#else
#define TUTTI_KERNELS_VECTOR_DIVIDE_INL_H
#endif

#include "kernels/divide.h"
#include "kernels/simd_targets.h"
#include "kernels/vector_elements-inl.h"

#include <hwy/highway.h>

#if !TUTTI_NO_VECTORS

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

// The quotient of 32-bit lanes by the multiplicative inverse, exact for every dividend: Granlund and Montgomery,
// "Division by Invariant Integers using Multiplication", 1994, figure 4.1.
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
    divide_each(lanes, hn::Lanes(d), by.value);
    return hn::Load(d, lanes);
  } else if constexpr (std::is_signed_v<T>) {
    const auto negative = as_unsigned(hn::VecFromMask(d, hn::Lt(value, hn::Zero(d))));
    const auto magnitude = hn::Sub(hn::Xor(as_unsigned(value), negative), negative);
    return hn::BitCast(d, hn::Sub(hn::Xor(divide_unsigned(magnitude, by), negative), negative));
  } else {
    return divide_unsigned(value, by);
  }
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // vectors
#endif  // include guard
