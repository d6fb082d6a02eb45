// Names of datatypes and operations, and numbers in the form in which elements hold them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti::bench {

struct DatatypeInfo {
  tutti_datatype_t datatype;
  std::string_view name;      // nccl-tests' word
  std::string_view alias;     // tutti's word
  int size_bytes;
  bool is_float;
  bool is_signed;
  int64_t exact_limit;        // every integer up to this magnitude is represented exactly
  int exponent_limit;         // and every power of two up to 2^this
  int exponent_bits = 0;      // of floats with less than 32 bits
};

struct OpInfo {
  tutti_op_t op;
  std::string_view name;
  // Of operations that neither round nor overflow.
  int64_t (*combine)(int64_t a, int64_t b) = nullptr;
  bool of_integers = false;  // only

  bool takes(const DatatypeInfo& type) const { return !(of_integers && type.is_float); }
};

std::span<const DatatypeInfo> datatypes();
std::span<const OpInfo> ops();
const DatatypeInfo& info(tutti_datatype_t datatype);
const OpInfo& info(tutti_op_t op);
std::optional<tutti_datatype_t> datatype_named(std::string_view name);
std::optional<tutti_op_t> op_named(std::string_view name);

// The bits of one element, in the low bytes.
using Bits = uint64_t;

// `value` must be exact in the type; floats may be fractional.
Bits encode(tutti_datatype_t datatype, int64_t value);
Bits encode_power_of_two(tutti_datatype_t datatype, int exponent, bool negative);
// sum / divisor as tutti_op_t defines it: integers truncate towards zero, narrow floats divide in float32 and round
// once.
Bits encode_quotient(tutti_datatype_t datatype, int64_t sum, int divisor);

}  // namespace tutti::bench
