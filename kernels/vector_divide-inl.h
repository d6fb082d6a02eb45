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

// The quotients of 32- and 64-bit lanes by the multiplicative inverse, exact for every dividend: Granlund and
// Montgomery, "Division by Invariant Integers using Multiplication", 1994, figure 4.1.
template <class V>
HWY_INLINE V divide_unsigned_words(V value, const Divisor& by) {
  const hn::DFromV<V> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const auto inverse = hn::Set(d, by.inverse32);
  const auto even = hn::ShiftRight<32>(hn::MulEven(value, inverse));
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, value))), inverse);
  const auto high = hn::BitCast(d, hn::Or(even, hn::And(odd, hn::Set(d64, 0xffffffff00000000))));
  return hn::ShiftRightSame(hn::Add(high, hn::ShiftRight<1>(hn::Sub(value, high))), by.last_shift);
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

// The high halves of the products of 64-bit lanes, from four products of 32 bits.
template <class V>
HWY_INLINE V multiply_high_longs(V a, uint64_t b) {
  const hn::DFromV<V> d;
  const hn::Repartition<uint32_t, decltype(d)> d32;
  const auto low_bits = hn::Set(d, 0xffffffff);
  const auto product = [d32](V x, V y) HWY_ATTR { return hn::MulEven(hn::BitCast(d32, x), hn::BitCast(d32, y)); };
  const auto a_high = hn::ShiftRight<32>(a);
  const auto b_low = hn::Set(d, b & 0xffffffff);
  const auto b_high = hn::Set(d, b >> 32);
  const auto middle = hn::Add(product(a_high, b_low), hn::ShiftRight<32>(product(a, b_low)));
  const auto other = hn::Add(product(a, b_high), hn::And(middle, low_bits));
  return hn::Add(hn::Add(product(a_high, b_high), hn::ShiftRight<32>(middle)), hn::ShiftRight<32>(other));
}

template <class V>
HWY_INLINE V divide_unsigned_longs(V value, const Divisor& by) {
  const auto high = multiply_high_longs(value, by.inverse64);
  return hn::ShiftRightSame(hn::Add(high, hn::ShiftRight<1>(hn::Sub(value, high))), by.last_shift);
}

template <class V>
HWY_INLINE V divide_unsigned(V value, const Divisor& by) {
  if constexpr (sizeof(Lane<V>) == 1) {
    return divide_unsigned_bytes(value, by);
  } else {
    if (by.power_of_two) return hn::ShiftRightSame(value, by.last_shift + 1);
    if constexpr (sizeof(Lane<V>) == 4) {
      return divide_unsigned_words(value, by);
    } else {
      return divide_unsigned_longs(value, by);
    }
  }
}

template <class V>
HWY_INLINE V divide(V value, const Divisor& by) {
  using T = Lane<V>;
  const hn::DFromV<V> d;
  if constexpr (std::is_floating_point_v<T>) {
    const T reciprocal = sizeof(T) == 4 ? by.reciprocal32 : by.reciprocal64;
    if (by.power_of_two) return hn::Mul(value, hn::Set(d, reciprocal));
    return hn::Div(value, hn::Set(d, static_cast<T>(by.value)));
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
