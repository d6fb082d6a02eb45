// The division that ends an average.
#pragma once

#include <bit>
#include <cstdint>

namespace tutti {

// What can be computed of a divisor once per call. 0 and 1 divide by nothing.
struct Divisor {
  explicit Divisor(uint32_t divisor) : value(divisor) {
    if (divisor < 2) return;
    const int bits = std::bit_width(divisor - 1);  // the logarithm, rounded up
    power_of_two = std::has_single_bit(divisor);
    reciprocal32 = 1 / static_cast<float>(divisor);
    reciprocal64 = 1 / static_cast<double>(divisor);
    inverse8 = divisor < 256 ? static_cast<uint16_t>((65536 + divisor - 1) / divisor) : 0;
    const uint64_t rest = (uint64_t{1} << bits) - divisor;
    const uint64_t quotient = (rest << 32) / divisor;
    inverse32 = static_cast<uint32_t>(quotient + 1);
    inverse64 = (quotient << 32 | ((rest << 32) % divisor << 32) / divisor) + 1;
    last_shift = bits - 1;
  }

  uint32_t value;
  bool power_of_two = false;
  float reciprocal32 = 1;     // exact of a power of two, so that a product with it rounds as the quotient does
  double reciprocal64 = 1;
  uint16_t inverse8 = 0;      // 2^16 / value, rounded up; 0 where every quotient of bytes is 0
  uint32_t inverse32 = 0;     // the low 32 bits of the inverse of 33 bits
  uint64_t inverse64 = 0;     // the low 64 bits of the inverse of 65 bits
  int last_shift = 0;         // of the products with these two; a power of two is 1 << (last_shift + 1)
};

}  // namespace tutti
