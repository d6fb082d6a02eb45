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
    DatatypeInfo{TUTTI_FLOAT16, "half", "float16", 2, true, true, 1 << 11, 14},
    DatatypeInfo{TUTTI_FLOAT32, "float", "float32", 4, true, true, 1 << 24, 120},
    DatatypeInfo{TUTTI_FLOAT64, "double", "float64", 8, true, true, int64_t{1} << 53, 1000},
    DatatypeInfo{TUTTI_BFLOAT16, "bfloat16", "bf16", 2, true, true, 1 << 8, 120},
};

constexpr std::array kOps = {
    OpInfo{TUTTI_SUM, "sum"}, OpInfo{TUTTI_PROD, "prod"}, OpInfo{TUTTI_MAX, "max"},
    OpInfo{TUTTI_MIN, "min"}, OpInfo{TUTTI_AVG, "avg"},
};

// Round to nearest, ties to even. NaN is not needed here.
uint16_t to_bfloat16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Of a finite value within float16's range, subnormals included.
uint16_t to_float16(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  float magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = std::max(std::ilogb(magnitude), -14);
  // The default rounding mode is to nearest even; a mantissa that rounds up to 2048 carries into
  // the exponent, as it should.
  auto mantissa = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<uint16_t>(sign + ((exponent + 14) << 10) + mantissa);
}

Bits encode_float(tutti_datatype_t datatype, double value) {
  switch (datatype) {
    case TUTTI_FLOAT16: return to_float16(static_cast<float>(value));
    case TUTTI_BFLOAT16: return to_bfloat16(static_cast<float>(value));
    case TUTTI_FLOAT32: return std::bit_cast<uint32_t>(static_cast<float>(value));
    default: return std::bit_cast<uint64_t>(value);
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

std::string_view name_of(tutti_op_t op) {
  for (const OpInfo& one : kOps) {
    if (one.op == op) return one.name;
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
  if (type.is_float) return encode_float(datatype, static_cast<double>(value));
  return low_bytes(static_cast<uint64_t>(value), type.size_bytes);
}

Bits encode_power_of_two(tutti_datatype_t datatype, int exponent, bool negative) {
  double value = std::ldexp(negative ? -1.0 : 1.0, exponent);
  if (info(datatype).is_float) return encode_float(datatype, value);
  return encode(datatype, static_cast<int64_t>(value));
}

Bits encode_quotient(tutti_datatype_t datatype, int64_t sum, int divisor) {
  if (!info(datatype).is_float) return encode(datatype, sum / divisor);
  if (datatype == TUTTI_FLOAT64) return encode_float(datatype, static_cast<double>(sum) / divisor);
  return encode_float(datatype, static_cast<float>(sum) / static_cast<float>(divisor));
}

}  // namespace tutti::bench
