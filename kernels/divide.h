// The division that ends an average.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

namespace tutti {

// What can be computed of a divisor once per call. 0 and 1 divide by nothing.
struct Divisor {
  explicit Divisor(uint32_t divisor) : value(divisor) {
    if (divisor < 2) return;
    const int bits = std::bit_width(divisor - 1);  // the logarithm, rounded up
    power_of_two = std::has_single_bit(divisor);
    inverse8 = divisor < 256 ? static_cast<uint16_t>((65536 + divisor - 1) / divisor) : 0;
    inverse32 = static_cast<uint32_t>((((uint64_t{1} << bits) - divisor) << 32) / divisor + 1);
    shift32 = bits - 1;
  }

  uint32_t value;
  bool power_of_two = false;  // then the reciprocal is exact, and a product with it rounds as the quotient does
  uint16_t inverse8 = 0;      // 2^16 / value, rounded up; 0 where every quotient of bytes is 0
  uint32_t inverse32 = 0;     // the low 32 bits of the inverse of 33 bits
  int shift32 = 0;
};

// No vector unit here divides 64-bit integers; out of line to keep the loops small.
template <class T>
[[gnu::noinline]] void divide_each(T* values, size_t count, uint32_t divisor) {
  for (size_t i = 0; i < count; ++i) values[i] = ops::divide(values[i], divisor);
}

}  // namespace tutti
