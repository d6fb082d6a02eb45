// The division that ends an average.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/ops.h"

namespace tutti {

struct Divisor {
  explicit Divisor(uint32_t divisor) : value(divisor), power_of_two(std::has_single_bit(divisor)) {}

  uint32_t value;     // 0 and 1 change nothing
  bool power_of_two;  // then its reciprocal is exact, and a product rounds as the quotient does
};

// No vector unit here divides integers; out of line to keep the loops small.
template <class T>
[[gnu::noinline]] void divide_each(T* values, size_t count, uint32_t divisor) {
  for (size_t i = 0; i < count; ++i) values[i] = ops::divide(values[i], divisor);
}

}  // namespace tutti
