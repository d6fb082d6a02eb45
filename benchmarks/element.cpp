#include "element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>

namespace tutti::bench {
namespace {

constexpr std::array kDatatypes = {
    DatatypeInfo{TUTTI_INT8, "int8", "i8", 1, false, true, 127, 6},
    DatatypeInfo{TUTTI_UINT8, "uint8", "u8", 1, false, false, 255, 7},
    DatatypeInfo{TUTTI_INT32, "int32", "i32", 4, false, true, (int64_t{1} << 31) - 1, 30},
    DatatypeInfo{TUTTI_UINT32, "uint32", "u32", 4, false, false, (int64_t{1} << 32) - 1, 31},
    DatatypeInfo{TUTTI_INT64, "int64", "i64", 8, false, true, int64_t{1} << 62, 62},
    DatatypeInfo{TUTTI_UINT64, "uint64", "u64", 8, false, false, int64_t{1} << 62, 62},
    DatatypeInfo{TUTTI_FLOAT16, "half", "float16", 2, true, true, 1 << 11, 14, 5},
    DatatypeInfo{TUTTI_FLOAT32, "float", "float32", 4, true, true, 1 << 24, 120},
    DatatypeInfo{TUTTI_FLOAT64, "double", "float64", 8, true, true, int64_t{1} << 53, 1000},
    DatatypeInfo{TUTTI_BFLOAT16, "bfloat16", "bf16", 2, true, true, 1 << 8, 120, 8},
    DatatypeInfo{TUTTI_FLOAT8_E4M3, "f8e4m3", "float8_e4m3", 1, true, true, 1 << 4, 6, 4},
    DatatypeInfo{TUTTI_FLOAT8_E5M2, "f8e5m2", "float8_e5m2", 1, true, true, 1 << 3, 14, 5},
};

constexpr bool kOfIntegers = true;

constexpr std::array kOps = {
    OpInfo{TUTTI_SUM, "sum"},
    OpInfo{TUTTI_PROD, "prod"},
    OpInfo{TUTTI_MAX, "max", [](int64_t a, int64_t b) { return std::max(a, b); }},
    OpInfo{TUTTI_MIN, "min", [](int64_t a, int64_t b) { return std::min(a, b); }},
    OpInfo{TUTTI_AVG, "avg"},
    OpInfo{TUTTI_BAND, "band", [](int64_t a, int64_t b) { return a & b; }, kOfIntegers},
    OpInfo{TUTTI_BOR, "bor", [](int64_t a, int64_t b) { return a | b; }, kOfIntegers},
    OpInfo{TUTTI_BXOR, "bxor", [](int64_t a, int64_t b) { return a ^ b; }, kOfIntegers},
};

// Of a finite value within the range of a float type of 8 or 16 bits, subnormals included.
Bits to_narrow_float(const DatatypeInfo& type, float value) {
  int bits = 8 * type.size_bytes, mantissa_bits = bits - 1 - type.exponent_bits;
  int least_exponent = 2 - (1 << (type.exponent_bits - 1));
  Bits sign = std::signbit(value) ? Bits{1} << (bits - 1) : 0;
  float magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), least_exponent);
  // The default rounding mode is to nearest even; a mantissa that rounds up to the next power of two carries into the
  // exponent, as it should.
  auto mantissa = static_cast<Bits>(std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent)));
  return sign + (static_cast<Bits>(exponent - least_exponent) << mantissa_bits) + mantissa;
}

Bits encode_float(const DatatypeInfo& type, double value) {
  switch (type.size_bytes) {
    case 8: return std::bit_cast<uint64_t>(value);
    case 4: return std::bit_cast<uint32_t>(static_cast<float>(value));
    default: return to_narrow_float(type, static_cast<float>(value));
  }
}

Bits low_bytes(uint64_t value, int size_bytes) { return value & (~uint64_t{0} >> (64 - 8 * size_bytes)); }

}  // namespace

std::span<const DatatypeInfo> datatypes() { return kDatatypes; }
std::span<const OpInfo> ops() { return kOps; }

const DatatypeInfo& info(tutti_datatype_t datatype) {
  for (const DatatypeInfo& one : kDatatypes) {
    if (one.datatype == datatype) return one;
  }
  std::abort();
}

const OpInfo& info(tutti_op_t op) {
  for (const OpInfo& one : kOps) {
    if (one.op == op) return one;
  }
  std::abort();
}

std::optional<tutti_datatype_t> datatype_named(std::string_view name) {
  for (const DatatypeInfo& one : kDatatypes) {
    if (one.name == name || one.alias == name) return one.datatype;
  }
  return std::nullopt;
}

std::optional<tutti_op_t> op_named(std::string_view name) {
  for (const OpInfo& one : kOps) {
    if (one.name == name) return one.op;
  }
  return std::nullopt;
}

Bits encode(tutti_datatype_t datatype, int64_t value) {
  const DatatypeInfo& type = info(datatype);
  if (type.is_float) return encode_float(type, static_cast<double>(value));
  return low_bytes(static_cast<uint64_t>(value), type.size_bytes);
}

Bits encode_power_of_two(tutti_datatype_t datatype, int exponent, bool negative) {
  const DatatypeInfo& type = info(datatype);
  double value = std::ldexp(negative ? -1.0 : 1.0, exponent);
  return type.is_float ? encode_float(type, value) : encode(datatype, static_cast<int64_t>(value));
}

Bits encode_quotient(tutti_datatype_t datatype, int64_t sum, int divisor) {
  const DatatypeInfo& type = info(datatype);
  if (!type.is_float) return encode(datatype, sum / divisor);
  if (type.size_bytes == 8) return encode_float(type, static_cast<double>(sum) / divisor);
  return encode_float(type, static_cast<float>(sum) / static_cast<float>(divisor));
}

}  // namespace tutti::bench
