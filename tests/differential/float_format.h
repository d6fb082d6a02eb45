// Binary floating-point formats of up to 64 bits, by arithmetic on doubles: shared with nothing in tutti, so that a
// mistake there is no mistake here.
#pragma once

#include <cstdint>

namespace differential {

// As in IEEE 754: subnormals, infinities, and a bias of half the exponents.
struct FloatFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;  // without the hidden one

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  // Half of the distance between 1 and the next number: the largest relative error of one rounding.
  double unit_roundoff() const;
};

constexpr FloatFormat kSingle{8, 23};
constexpr FloatFormat kDouble{11, 52};

// The nearest number of the format, of two the even one; infinity beyond its range.
double rounded(double value, FloatFormat format);
// Of a number that the format has.
uint64_t encoded(double value, FloatFormat format);
double decoded(uint64_t bits, FloatFormat format);

}  // namespace differential
