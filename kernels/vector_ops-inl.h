// The operations of ops.h in vectors. Included once per instruction set.
#if defined(TUTTI_KERNELS_VECTOR_OPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_VECTOR_OPS_INL_H
#undef TUTTI_KERNELS_VECTOR_OPS_INL_H
#else
#define TUTTI_KERNELS_VECTOR_OPS_INL_H
#endif

#include "kernels/ops.h"
#include "kernels/simd_targets.h"
#include "kernels/vector_divide-inl.h"
#include "kernels/vector_elements-inl.h"

#include <hwy/highway.h>

#if !TUTTI_NO_VECTORS

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

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

#if HWY_ARCH_ARM_A64

HWY_INLINE auto minimum(hn::Vec128<float> a, hn::Vec128<float> b) { return hn::Vec128<float>(vminq_f32(a.raw, b.raw)); }
HWY_INLINE auto minimum(hn::Vec128<double> a, hn::Vec128<double> b) {
  return hn::Vec128<double>(vminq_f64(a.raw, b.raw));
}
HWY_INLINE auto maximum(hn::Vec128<float> a, hn::Vec128<float> b) { return hn::Vec128<float>(vmaxq_f32(a.raw, b.raw)); }
HWY_INLINE auto maximum(hn::Vec128<double> a, hn::Vec128<double> b) {
  return hn::Vec128<double>(vmaxq_f64(a.raw, b.raw));
}

#else

// In registers: gcc would load each of them from memory twice, once for either order.
template <class V>
HWY_INLINE void keep_in_registers(V& a, V& b) {
#if HWY_ARCH_X86
  __asm__("" : "+v"(a.raw), "+v"(b.raw));
#else
  (void)a, (void)b;
#endif
}

// x86's minimum gives its second operand when one is NaN or both are zeros. Of the two orders, the bitwise "or" keeps a
// NaN, keeps the sign of -0, and changes nothing when both are the same.
template <class V>
HWY_INLINE V minimum(V a, V b) {
  keep_in_registers(a, b);
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

template <class V>
HWY_INLINE V apply(ops::BitAnd, V a, V b) {
  return hn::And(a, b);
}
template <class V>
HWY_INLINE V apply(ops::BitOr, V a, V b) {
  return hn::Or(a, b);
}
template <class V>
HWY_INLINE V apply(ops::BitXor, V a, V b) {
  return hn::Xor(a, b);
}

template <class Op, class V>
HWY_INLINE V combine(Op op, V a, V b) {
  return apply(op, a, b);
}
template <class Op, class Block>
HWY_INLINE Pair<Block> combine(Op op, Pair<Block> a, Pair<Block> b) {
  return {combine(op, a.first, b.first), combine(op, a.second, b.second)};
}

template <class Block>
HWY_INLINE Pair<Block> divide(Pair<Block> block, const Divisor& by) {
  return {divide(block.first, by), divide(block.second, by)};
}

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // vectors
#endif  // include guard
