// Sums of 8-bit floats: the bits of ops::Sum, rounded in 16-bit lanes. Included once per instruction set.
#if defined(TUTTI_KERNELS_VECTOR_SUMS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TUTTI_KERNELS_VECTOR_SUMS_INL_H
#undef TUTTI_KERNELS_VECTOR_SUMS_INL_H
#else
#define TUTTI_KERNELS_VECTOR_SUMS_INL_H
#endif

#include "kernels/ops.h"
#include "kernels/simd_targets.h"
#include "kernels/vector_elements-inl.h"
#include "kernels/vector_ops-inl.h"

#include <hwy/highway.h>

#if !TUTTI_NO_VECTORS

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

// The elements of Scalar, an 8-bit float, as sums take them: as the float32 with the value of the float16 that has the
// same fields, which for e4m3 is a power of two less.
//
// On their way back they are rounded to float16 and from there to 8 bits, and yet it is as if they were rounded once.
// Below Scalar's smallest normal value sums are multiples of its smallest subnormal, all of which float16 has. Above,
// float16 has more than twice the places of Scalar, so that a sum of two that it has not is nowhere near the middle
// between two neighbours of 8 bits. A sum of more may be, and becomes a float16 with an odd last bit, which is never
// such a middle.
template <class Scalar>
struct Summed {
  using Storage = typename Scalar::Storage;
  using Accumulator = typename Scalar::Accumulator;

  // Whether all of this is true of sums divided by `divisor`, too: there are seven places to spare below.
  static bool takes(uint32_t divisor) { return divisor <= 128 && (divisor & (divisor - 1)) == 0; }
};

template <class Element>
constexpr bool kIsSummed = false;
template <class Scalar>
constexpr bool kIsSummed<Summed<Scalar>> = true;

// The sums, and of each element the largest magnitude among those that were added, as it is stored.
template <class Block, class V>
struct SumsAndLargest {
  HWY_INLINE SumsAndLargest() {}
  HWY_INLINE SumsAndLargest(Block a, V b) : sums(a), largest(b) {}

  Block sums;
  V largest;
};

template <class Block, class V>
HWY_INLINE auto combine(ops::Sum, SumsAndLargest<Block, V> a, SumsAndLargest<Block, V> b) {
  return SumsAndLargest<Block, V>{combine(ops::Sum(), a.sums, b.sums), hn::Max(a.largest, b.largest)};
}
template <class Block, class V>
HWY_INLINE auto divide(SumsAndLargest<Block, V> block, const Divisor& by) {
  return SumsAndLargest<Block, V>{divide(block.sums, by), block.largest};
}

template <class Scalar>
struct SummedVectors {
 protected:
  // To nearest even at bit kShift, whatever the sign.
  template <int kShift, class D8, class V>
  HWY_INLINE static auto round(D8 d8, Pair<V> sums, size_t sources) {
    const hn::Repartition<uint16_t, D8> d;
    if (sources > 2) sums = {round_to_odd(sums.first), round_to_odd(sums.second)};
    const auto half = hn::BitCast(d, Vectors<ops::Float16>::demote(d8, sums));
    const auto last = hn::And(hn::ShiftRight<kShift>(half), hn::Set(d, uint16_t{1}));
    return hn::Add(hn::Add(half, hn::Set(d, uint16_t{(1 << (kShift - 1)) - 1})), last);
  }

  // The high bytes of both.
  template <class D8, class V>
  HWY_INLINE static auto join(D8 d8, V even, V odd) {
    return hn::OddEven(hn::BitCast(d8, odd), hn::BitCast(d8, hn::ShiftRight<8>(even)));
  }

 private:
  // To the places of a float16.
  template <class V>
  HWY_INLINE static V round_to_odd(V value) {
    const hn::DFromV<V> df;
    const hn::RebindToUnsigned<decltype(df)> d;
    const auto beyond = hn::Set(d, 0x1fffu);
    const auto bits = hn::BitCast(d, value);
    const auto carry = hn::Add(hn::And(bits, beyond), beyond);
    return hn::BitCast(df, hn::AndNot(beyond, hn::Or(bits, carry)));
  }
};

// Infinities and NaNs have their places in float16, too.
template <>
struct Vectors<Summed<ops::Float8E5m2>> : SummedVectors<ops::Float8E5m2> {
  using Scalar = ops::Float8E5m2;

  template <class D8>
  HWY_INLINE static auto unpack(D8 d8, hn::VFromD<D8> bytes) {
    return Vectors<Scalar>::unpack(d8, bytes);
  }

  template <class D8, class V>
  HWY_INLINE static auto pack(D8 d8, Pair<Pair<V>> sums, size_t sources) {
    const auto stored = join(d8, round<8>(d8, sums.first, sources), round<8>(d8, sums.second, sources));
    const auto sign = hn::Set(d8, uint8_t{0x80});
    const auto magnitude = hn::AndNot(sign, stored);
    const auto is_nan = hn::Gt(magnitude, hn::Set(d8, Scalar::kInfinity));
    const auto finite = hn::Min(magnitude, hn::Set(d8, Scalar::kLargestResult));
    return hn::IfThenElse(is_nan, hn::Set(d8, Scalar::kQuietNan), hn::Or(finite, hn::And(stored, sign)));
  }
};

// NaN is taken for the number that its bits would be, and put where one was added.
template <>
struct Vectors<Summed<ops::Float8E4m3>> : SummedVectors<ops::Float8E4m3> {
  using Scalar = ops::Float8E4m3;

  template <class D8>
  HWY_INLINE static auto unpack(D8 d8, hn::VFromD<D8> bytes) {
    auto halves = Vectors<Scalar>::halves(d8, bytes);
    auto even = Vectors<ops::Float16>::unpack(d8, hn::BitCast(d8, halves.first));
    auto odd = Vectors<ops::Float16>::unpack(d8, hn::BitCast(d8, halves.second));
    const auto magnitude = hn::AndNot(hn::Set(d8, uint8_t{0x80}), bytes);
    return SumsAndLargest<Pair<decltype(even)>, hn::VFromD<D8>>{{even, odd}, magnitude};
  }

  template <class D8, class Block, class V8>
  HWY_INLINE static auto pack(D8 d8, SumsAndLargest<Block, V8> block, size_t sources) {
    const auto even = finite(round<7>(d8, block.sums.first, sources));
    const auto odd = finite(round<7>(d8, block.sums.second, sources));
    const auto nan = hn::Set(d8, Scalar::kQuietNan);
    return hn::IfThenElse(hn::Eq(block.largest, nan), nan, join(d8, even, odd));
  }

 private:
  // The magnitude's last bit is at bit 7; it goes to the high byte, below the sign.
  template <class V>
  HWY_INLINE static V finite(V stored) {
    const hn::DFromV<V> d;
    const auto sign = hn::Set(d, uint16_t{0x8000});
    const auto magnitude = hn::Min(hn::AndNot(sign, stored), hn::Set(d, uint16_t{Scalar::kLargestResult << 7 | 0x7f}));
    return hn::Or(hn::ShiftLeft<1>(magnitude), hn::And(stored, sign));
  }
};

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // vectors
#endif  // include guard
