// Binary floating-point formats of up to 64 bits, by arithmetic on doubles: shared with nothing in tutti, so that a
// mistake there is no mistake here.
#pragma once

#include <cstdint>

namespace differential {

// As in IEEE 754: subnormals, and a bias of half the exponents.
struct FloatFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;  // without the hidden one
  bool saturates = false;  // what is too large becomes the largest number instead of an infinity
  // The last exponent is one of infinities and NaN, or of numbers too, all but the one of all ones, which is NaN.
  bool has_infinities = true;

  int largest_exponent() const { return bias() + (has_infinities ? 0 : 1); }
  double largest() const;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  // Half of the distance between 1 and the next number: the largest relative error of one rounding.
  double unit_roundoff() const;
};

constexpr FloatFormat kSingle{8, 23};
constexpr FloatFormat kDouble{11, 52};
// Micikevicius et al., FP8 Formats for Deep Learning, 2022; saturating as CUDA's conversions.
constexpr FloatFormat kFloat8E4M3{.exponent_bits = 4, .mantissa_bits = 3, .saturates = true, .has_infinities = false};
constexpr FloatFormat kFloat8E5M2{.exponent_bits = 5, .mantissa_bits = 2, .saturates = true};

// The nearest number of the format, of two the even one; beyond its range infinity, or the largest where it saturates.
double rounded(double value, FloatFormat format);
// Of a number that the format has.
uint64_t encoded(double value, FloatFormat format);
double decoded(uint64_t bits, FloatFormat format);

}  // namespace differential
