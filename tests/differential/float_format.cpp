#include "float_format.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace differential {
namespace {

int exponent_of(double value) { return value == 0 ? std::numeric_limits<int>::min() / 2 : std::ilogb(value); }

int least_exponent(FloatFormat format) { return 1 - format.bias(); }

}  // namespace

double FloatFormat::largest() const {
  int last_place_units = has_infinities ? 1 : 2;  // below 2: the last mantissa of the last exponent may be NaN
  return std::ldexp(2 - std::ldexp(last_place_units, -mantissa_bits), largest_exponent());
}

double FloatFormat::unit_roundoff() const { return std::ldexp(1, -mantissa_bits - 1); }

double rounded(double value, FloatFormat format) {
  if (value == 0 || !std::isfinite(value)) return value;
  int last_place = std::max(exponent_of(value), least_exponent(format)) - format.mantissa_bits;
  double result = std::ldexp(std::nearbyint(std::ldexp(value, -last_place)), last_place);
  if (std::fabs(result) <= format.largest()) return result;
  return std::copysign(format.saturates ? format.largest() : std::numeric_limits<double>::infinity(), value);
}

uint64_t encoded(double value, FloatFormat format) {
  uint64_t sign = static_cast<uint64_t>(std::signbit(value)) << (format.exponent_bits + format.mantissa_bits);
  uint64_t hidden = uint64_t{1} << format.mantissa_bits;
  uint64_t all_exponent_bits = (uint64_t{1} << format.exponent_bits) - 1;
  if (std::isinf(value)) return sign | all_exponent_bits * hidden;
  int exponent = std::max(exponent_of(value), least_exponent(format));
  // In units of the last place; a subnormal has no hidden bit, which is what the exponent field 0 says.
  auto units = static_cast<uint64_t>(std::ldexp(std::fabs(value), format.mantissa_bits - exponent));
  auto steps = static_cast<uint64_t>(exponent - least_exponent(format));
  return sign | (steps * hidden + units);
}

double decoded(uint64_t bits, FloatFormat format) {
  uint64_t hidden = uint64_t{1} << format.mantissa_bits;
  uint64_t all_exponent_bits = (uint64_t{1} << format.exponent_bits) - 1;
  uint64_t mantissa = bits & (hidden - 1);
  uint64_t field = bits >> format.mantissa_bits & all_exponent_bits;
  double sign = (bits >> (format.exponent_bits + format.mantissa_bits) & 1) != 0 ? -1.0 : 1.0;
  bool is_nan = field == all_exponent_bits && (format.has_infinities ? mantissa != 0 : mantissa == hidden - 1);
  if (is_nan) return std::numeric_limits<double>::quiet_NaN();
  if (field == all_exponent_bits && format.has_infinities) {
    return sign * std::numeric_limits<double>::infinity();
  }
  int exponent = std::max(static_cast<int>(field), 1) - format.bias() - format.mantissa_bits;
  return sign * std::ldexp(static_cast<double>(field == 0 ? mantissa : mantissa + hidden), exponent);
}

}  // namespace differential
