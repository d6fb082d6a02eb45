// Integer arithmetic that the language lacks.
#pragma once

#include <cstdint>

namespace tutti {

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

}  // namespace tutti
