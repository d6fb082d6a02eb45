#include "nccl/values.h"

#include <math.h>
#include <stdint.h>

#include "nccl/check.h"

/* The bits of a float: its exponent and mantissa have so many, and the value has an exact form with an implied one. */
struct format {
  int exponent_bits, mantissa_bits;
};

static const struct format* format_of(ncclDataType_t type) {
  static const struct format half = {5, 10}, bfloat = {8, 7}, e4m3 = {4, 3}, e5m2 = {5, 2};
  switch (type) {
    case ncclFloat16: return &half;
    case ncclBfloat16: return &bfloat;
    case ncclFloat8e4m3: return &e4m3;
    case ncclFloat8e5m2: return &e5m2;
    default: return NULL;
  }
}

static unsigned encode(const struct format* format, double value) {
  if (value == 0) return 0;
  int exponent;
  double fraction = frexp(value, &exponent) * 2 - 1; /* of 1.fraction * 2^(exponent - 1) */
  double mantissa = ldexp(fraction, format->mantissa_bits);
  CHECK(mantissa == floor(mantissa));
  int bias = (1 << (format->exponent_bits - 1)) - 1;
  return ((unsigned)(exponent - 1 + bias) << format->mantissa_bits) | (unsigned)mantissa;
}

static double decode(const struct format* format, unsigned bits) {
  if (bits == 0) return 0;
  int bias = (1 << (format->exponent_bits - 1)) - 1;
  unsigned mantissa = bits & ((1U << format->mantissa_bits) - 1);
  int exponent = (int)(bits >> format->mantissa_bits) - bias;
  return ldexp(1 + ldexp(mantissa, -format->mantissa_bits), exponent);
}

size_t size_of_type(ncclDataType_t type) {
  static const size_t sizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[type];
}

void put_value(void* buffer, size_t index, ncclDataType_t type, double value) {
  switch (type) {
    case ncclInt8: ((int8_t*)buffer)[index] = (int8_t)value; break;
    case ncclUint8: ((uint8_t*)buffer)[index] = (uint8_t)value; break;
    case ncclInt32: ((int32_t*)buffer)[index] = (int32_t)value; break;
    case ncclUint32: ((uint32_t*)buffer)[index] = (uint32_t)value; break;
    case ncclInt64: ((int64_t*)buffer)[index] = (int64_t)value; break;
    case ncclUint64: ((uint64_t*)buffer)[index] = (uint64_t)value; break;
    case ncclFloat32: ((float*)buffer)[index] = (float)value; break;
    case ncclFloat64: ((double*)buffer)[index] = value; break;
    case ncclFloat16:
    case ncclBfloat16: ((uint16_t*)buffer)[index] = (uint16_t)encode(format_of(type), value); break;
    default: ((uint8_t*)buffer)[index] = (uint8_t)encode(format_of(type), value); break;
  }
}

double get_value(const void* buffer, size_t index, ncclDataType_t type) {
  switch (type) {
    case ncclInt8: return ((const int8_t*)buffer)[index];
    case ncclUint8: return ((const uint8_t*)buffer)[index];
    case ncclInt32: return ((const int32_t*)buffer)[index];
    case ncclUint32: return ((const uint32_t*)buffer)[index];
    case ncclInt64: return (double)((const int64_t*)buffer)[index];
    case ncclUint64: return (double)((const uint64_t*)buffer)[index];
    case ncclFloat32: return ((const float*)buffer)[index];
    case ncclFloat64: return ((const double*)buffer)[index];
    case ncclFloat16:
    case ncclBfloat16: return decode(format_of(type), ((const uint16_t*)buffer)[index]);
    default: return decode(format_of(type), ((const uint8_t*)buffer)[index]);
  }
}

double input_value(int rank, size_t index) { return (double)(((size_t)rank * 7 + index * 5 + index / 4) % 3); }

double reduced_value(int nranks, size_t index, ncclRedOp_t op, ncclDataType_t type) {
  double value = input_value(0, index);
  for (int rank = 1; rank < nranks; ++rank) {
    double next = input_value(rank, index);
    switch (op) {
      case ncclProd: value *= next; break;
      case ncclMax: value = value > next ? value : next; break;
      case ncclMin: value = value < next ? value : next; break;
      default: value += next; break;
    }
  }
  if (op == ncclAvg) value /= nranks;
  int is_integer = type <= ncclUint64;
  return is_integer ? floor(value) : value;
}
