// The element operations that define the bits of a reduction. Plain C++ without library calls, so that nvcc can share
// it; the SIMD kernels compute the same in vectors.
//
// Rules, the same on every processor:
// - 8- and 16-bit floats are widened to float32, combined there and rounded once, to nearest even. What is too large
//   for an 8-bit float becomes its largest finite value.
// - A NaN result is always the same positive quiet NaN: which NaN an addition passes on differs between processors.
// - min and max follow IEEE 754-2019 minimum and maximum: NaN wins, and -0 is less than +0. So all operations commute
// bit by bit.
// - Integers wrap around.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __CUDACC__
#define TUTTI_HOST_DEVICE __host__ __device__
#else
#define TUTTI_HOST_DEVICE
#endif

namespace tutti::ops {

template <class To, class From>
TUTTI_HOST_DEVICE inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

constexpr uint32_t kQuietNan32 = 0x7fc00000;
constexpr uint64_t kQuietNan64 = 0x7ff8000000000000;

TUTTI_HOST_DEVICE inline float quiet_nan(float) { return bits_as<float>(kQuietNan32); }
TUTTI_HOST_DEVICE inline double quiet_nan(double) { return bits_as<double>(kQuietNan64); }

// An element type says how it lies in memory, in which type it is combined, and how to go from one to the other. Of the
// narrow floats it also has stored magnitudes: kInfinity, behind which NaNs begin, kLargestResult and the one NaN that
// results have.

template <class T>
struct Plain {
  using Storage = T;
  using Accumulator = T;
  TUTTI_HOST_DEVICE static T load(T stored) { return stored; }
  TUTTI_HOST_DEVICE static T store(T value) { return value; }
};

struct Float16 {
  using Storage = uint16_t;
  using Accumulator = float;

  static constexpr uint32_t kSubnormalOffset = 0x38800000;  // 2^-14, the smallest normal float16
  static constexpr uint32_t kExponentOffset = 0x38000000;   // (127 - 15) << 23
  static constexpr uint32_t kFirstTooLarge = 0x47800000;    // 2^16; what rounds up to it becomes infinite by carry
  static constexpr uint32_t kSubnormalMagic = 0x3f000000;   // 0.5: adding it rounds at the last place of a subnormal
  static constexpr uint16_t kInfinity = 0x7c00;
  static constexpr uint16_t kLargestResult = kInfinity;
  static constexpr uint16_t kQuietNan = 0x7e00;

  TUTTI_HOST_DEVICE static float load(uint16_t stored) {
    const uint32_t sign = (stored & 0x8000u) << 16;
    const uint32_t magnitude = (stored & 0x7fffu) << 13;
    uint32_t bits = magnitude + kExponentOffset;
    if (magnitude >= 0x0f800000) bits = magnitude | 0x7f800000;  // infinity, NaN
    if (magnitude < 0x00800000) {
      bits = bits_as<uint32_t>(bits_as<float>(magnitude + kSubnormalOffset) - bits_as<float>(kSubnormalOffset));
    }
    return bits_as<float>(sign | bits);
  }

  TUTTI_HOST_DEVICE static uint16_t store(float value) {
    const uint32_t bits = bits_as<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7fffffff;
    const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000) return kQuietNan;
    if (magnitude >= kFirstTooLarge) return sign | kInfinity;
    if (magnitude < kSubnormalOffset) {
      const float shifted = bits_as<float>(magnitude) + bits_as<float>(kSubnormalMagic);
      return static_cast<uint16_t>(sign | (bits_as<uint32_t>(shifted) - kSubnormalMagic));
    }
    return static_cast<uint16_t>(sign | (magnitude - kExponentOffset + 0xfff + (magnitude >> 13 & 1)) >> 13);
  }
};

struct Bfloat16 {
  using Storage = uint16_t;
  using Accumulator = float;

  static constexpr uint16_t kInfinity = 0x7f80;
  static constexpr uint16_t kLargestResult = kInfinity;
  static constexpr uint16_t kQuietNan = kQuietNan32 >> 16;

  TUTTI_HOST_DEVICE static float load(uint16_t stored) { return bits_as<float>(static_cast<uint32_t>(stored) << 16); }
  TUTTI_HOST_DEVICE static uint16_t store(float value) {
    const uint32_t bits = bits_as<uint32_t>(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return kQuietNan;
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};

// The formats of OCP's "8-bit Floating Point Specification", 2023, with the conversions of CUDA's constructors.
template <int kExponentBits, uint8_t kLargestStored>
struct Float8 {
  using Storage = uint8_t;
  using Accumulator = float;

  static constexpr int kMantissaBits = 7 - kExponentBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kShift = 23 - kMantissaBits;
  static constexpr uint8_t kLargestResult = kLargestStored;
  static constexpr uint8_t kQuietNan = 0x7f;
  static constexpr uint32_t kExponentOffset = (127 - kBias) << 23;
  static constexpr uint32_t kSmallestNormal = kExponentOffset + (1 << 23);
  static constexpr uint32_t kLargest = kExponentOffset + (kLargestStored << kShift);
  static constexpr uint32_t kBelowHalf = (1 << (kShift - 1)) - 1;
  // The power of two that rounds at the last place of a subnormal when it is added.
  static constexpr uint32_t kSubnormalMagic = kSmallestNormal + (kShift << 23);

  TUTTI_HOST_DEVICE static uint8_t store(float value) {
    const uint32_t bits = bits_as<uint32_t>(value);
    const uint8_t sign = static_cast<uint8_t>(bits >> 24 & 0x80);
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return kQuietNan;
    if (magnitude > kLargest) magnitude = kLargest;
    if (magnitude < kSmallestNormal) {
      const float shifted = bits_as<float>(magnitude) + bits_as<float>(kSubnormalMagic);
      return static_cast<uint8_t>(sign | (bits_as<uint32_t>(shifted) - kSubnormalMagic));
    }
    const uint32_t last = magnitude >> kShift & 1;
    return static_cast<uint8_t>(sign | (magnitude - kExponentOffset + kBelowHalf + last) >> kShift);
  }
};

// No infinities, and one NaN of each sign.
struct Float8E4m3 : Float8<4, 0x7e> {
  static constexpr uint8_t kInfinity = kLargestResult;
  static constexpr float kHalfScale = 256;  // of the float16 with the same exponent field, whose bias is larger by 8

  TUTTI_HOST_DEVICE static float load(uint8_t stored) {
    const uint32_t magnitude = stored & 0x7fu;
    if (magnitude == 0x7f) return bits_as<float>(kQuietNan32);
    return Float16::load(static_cast<uint16_t>((stored & 0x80u) << 8 | magnitude << 7)) * kHalfScale;
  }
};

// The upper half of a float16.
struct Float8E5m2 : Float8<5, 0x7b> {
  static constexpr uint8_t kInfinity = 0x7c;

  TUTTI_HOST_DEVICE static float load(uint8_t stored) { return Float16::load(static_cast<uint16_t>(stored << 8)); }
};

// Wide enough that C's promotion to int cannot overflow.
template <class T>
using Wrapping = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

struct Sum {
  template <class T>
  TUTTI_HOST_DEVICE static T combine(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a + b;
    } else {
      return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
    }
  }
};

struct Prod {
  template <class T>
  TUTTI_HOST_DEVICE static T combine(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a * b;
    } else {
      return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
    }
  }
};

TUTTI_HOST_DEVICE inline bool is_negative(float value) { return bits_as<uint32_t>(value) >> 31; }
TUTTI_HOST_DEVICE inline bool is_negative(double value) { return bits_as<uint64_t>(value) >> 63; }

struct Min {
  template <class T>
  TUTTI_HOST_DEVICE static T combine(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return quiet_nan(a);
      if (a == b) return is_negative(a) ? a : b;
    }
    return b < a ? b : a;
  }
};

struct Max {
  template <class T>
  TUTTI_HOST_DEVICE static T combine(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) return quiet_nan(a);
      if (a == b) return is_negative(a) ? b : a;
    }
    return a < b ? b : a;
  }
};

// Of integers only; C's promotion to int changes no bit that is kept.
struct BitAnd {
  template <class T>
  TUTTI_HOST_DEVICE static T combine(T a, T b) {
    return static_cast<T>(a & b);
  }
};

struct BitOr {
  template <class T>
  TUTTI_HOST_DEVICE static T combine(T a, T b) {
    return static_cast<T>(a | b);
  }
};

struct BitXor {
  template <class T>
  TUTTI_HOST_DEVICE static T combine(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <class T>
TUTTI_HOST_DEVICE T divide(T value, uint32_t divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    return value / static_cast<T>(divisor);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(static_cast<int64_t>(value) / static_cast<int64_t>(divisor));
  } else {
    return static_cast<T>(static_cast<uint64_t>(value) / divisor);
  }
}

// What remains after all sources are combined; divisor 0 divides by nothing.
template <class T>
TUTTI_HOST_DEVICE T finish(T value, uint32_t divisor) {
  if (divisor > 0) value = divide(value, divisor);
  if constexpr (std::is_floating_point_v<T>) {
    if (value != value) return quiet_nan(value);
  }
  return value;
}

}  // namespace tutti::ops
