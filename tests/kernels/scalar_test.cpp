// reduce_scalar() defines the bits, so it is held against arithmetic done another way: float64 and 128-bit integers,
// and a search among all 16-bit floats instead of a rounding formula.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cases.h"
#include "kernels/ops.h"

namespace tutti {
namespace {

struct HalfFormat {
  int exponent_bits;
  int mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }

  double value(uint32_t magnitude) const {
    const uint32_t mantissa = magnitude & ((1u << mantissa_bits) - 1);
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias() - mantissa_bits);
  }

  // The nearest value; of two equally near ones that with an even last bit. Infinity counts as the next power of two.
  uint16_t nearest(float number) const {
    if (std::isnan(number)) return static_cast<uint16_t>(infinity() | 1u << (mantissa_bits - 1));
    const uint16_t sign = std::signbit(number) ? 0x8000 : 0;
    const double magnitude = std::fabs(static_cast<double>(number));
    if (magnitude >= value(infinity())) return static_cast<uint16_t>(sign | infinity());
    uint32_t low = 0, high = infinity();
    while (high - low > 1) {
      const uint32_t middle = (low + high) / 2;
      (value(middle) <= magnitude ? low : high) = middle;
    }
    const double below = magnitude - value(low), above = value(high) - magnitude;
    const bool up = above < below || (above == below && low % 2 == 1);
    return static_cast<uint16_t>(sign | (up ? high : low));
  }
};

constexpr HalfFormat kFloat16{5, 10};
constexpr HalfFormat kBfloat16{8, 7};

template <class Element>
void check_every_load(HalfFormat format) {
  size_t wrong = 0;
  for (uint32_t stored = 0; stored < 65536; ++stored) {
    const float loaded = Element::load(static_cast<uint16_t>(stored));
    const uint32_t magnitude = stored & 0x7fff;
    if (magnitude > format.infinity()) {
      wrong += !std::isnan(loaded);
    } else if (magnitude == format.infinity()) {
      wrong += !std::isinf(loaded);
    } else {
      wrong += static_cast<double>(std::fabs(loaded)) != format.value(magnitude);
    }
    wrong += std::signbit(loaded) != (stored >> 15 == 1);
  }
  CHECK(wrong == 0);
}

// Around every value and every midpoint between neighbours, and random bit patterns.
template <class Element>
void check_stores(HalfFormat format) {
  size_t wrong = 0;
  const auto check = [&](float number) {
    wrong += Element::store(number) != format.nearest(number);
    wrong += Element::store(-number) != format.nearest(-number);
  };
  for (uint32_t magnitude = 0; magnitude < format.infinity(); ++magnitude) {
    const auto exact = static_cast<float>(format.value(magnitude));
    const auto middle = static_cast<float>((format.value(magnitude) + format.value(magnitude + 1)) / 2);
    for (const float number : {exact, middle}) {
      check(number);
      check(std::nextafterf(number, 0));
      check(std::nextafterf(number, INFINITY));
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 300'000; ++i) check(ops::bits_as<float>(static_cast<uint32_t>(random())));
  for (const float number :
       {0.0f, INFINITY, NAN, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) {
    check(number);
  }
  CHECK(wrong == 0);
}

TEST_CASE("every float16 widens to its value") { check_every_load<ops::Float16>(kFloat16); }
TEST_CASE("every bfloat16 widens to its value") { check_every_load<ops::Bfloat16>(kBfloat16); }
TEST_CASE("float32 rounds to the nearest float16, ties to even") { check_stores<ops::Float16>(kFloat16); }
TEST_CASE("float32 rounds to the nearest bfloat16, ties to even") { check_stores<ops::Bfloat16>(kBfloat16); }

__int128 combine_wide(ReduceOp op, __int128 a, __int128 b) {
  switch (op) {
    case TUTTI_PROD:
      return static_cast<__int128>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b));
    case TUTTI_MIN: return std::min(a, b);
    case TUTTI_MAX: return std::max(a, b);
    case TUTTI_BAND: return a & b;
    case TUTTI_BOR: return a | b;
    case TUTTI_BXOR: return a ^ b;
    default: return a + b;
  }
}

double combine_wide(ReduceOp op, double a, double b) {
  switch (op) {
    case TUTTI_PROD: return a * b;
    case TUTTI_MIN: return std::fmin(a, b);
    case TUTTI_MAX: return std::fmax(a, b);
    default: return a + b;
  }
}

// What kernels.h says, level by level.
template <class Wide, class T>
T combine_tree(ReduceOp op, std::vector<T> level) {
  while (level.size() > 1) {
    std::vector<T> above;
    for (size_t j = 0; j + 1 < level.size(); j += 2) {
      above.push_back(static_cast<T>(combine_wide(op, static_cast<Wide>(level[j]), static_cast<Wide>(level[j + 1]))));
    }
    if (level.size() % 2 == 1) above.push_back(level.back());
    level = std::move(above);
  }
  return level[0];
}

// Of two float32 operands a float64 sum, product or quotient, rounded to float32, is the correctly rounded float32
// result.
template <class T, class Wide>
void check_reductions(Datatype datatype, const std::function<T()>& next) {
  constexpr size_t kCount = 2000, kSources = 5;
  std::vector<std::vector<T>> sources(kSources, std::vector<T>(kCount));
  std::vector<const std::byte*> pointers;
  for (auto& source : sources) {
    std::generate(source.begin(), source.end(), next);
    pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
  }
  for (const ReduceOp op : ops_of(datatype)) {
    for (const uint32_t divisor : {0u, 5u}) {
      if ((op == TUTTI_AVG) != (divisor > 0)) continue;
      std::vector<T> result(kCount);
      std::byte* const destination = reinterpret_cast<std::byte*>(result.data());
      reduce_scalar({.datatype = datatype,
                     .op = op,
                     .sources = pointers,
                     .destinations = {&destination, 1},
                     .count = kCount,
                     .divisor = divisor});
      size_t wrong = 0;
      for (size_t i = 0; i < kCount; ++i) {
        std::vector<T> elements;
        for (const auto& source : sources) elements.push_back(source[i]);
        T expected = combine_tree<Wide>(op, elements);
        if (divisor > 0) expected = static_cast<T>(static_cast<Wide>(expected) / static_cast<Wide>(divisor));
        wrong += memcmp(&expected, &result[i], sizeof expected) != 0;
      }
      INFO(name_of(datatype) << " " << name_of(op));
      CHECK(wrong == 0);
    }
  }
}

template <class T>
void check_integers(Datatype datatype) {
  std::mt19937_64 random(1);
  check_reductions<T, __int128>(datatype, [&] { return static_cast<T>(random()); });
}

TEST_CASE("integers wrap around and averages truncate towards zero") {
  check_integers<int8_t>(TUTTI_INT8);
  check_integers<uint8_t>(TUTTI_UINT8);
  check_integers<int32_t>(TUTTI_INT32);
  check_integers<uint32_t>(TUTTI_UINT32);
  check_integers<int64_t>(TUTTI_INT64);
  check_integers<uint64_t>(TUTTI_UINT64);
}

TEST_CASE("float32 and float64 round after each operation") {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> real(-100, 100);
  check_reductions<float, double>(TUTTI_FLOAT32, [&] { return static_cast<float>(real(random)); });
  check_reductions<double, double>(TUTTI_FLOAT64, [&] { return real(random); });
}

TEST_CASE("16-bit floats round once, after all sources") {
  // 1 + 2^-11 + 2^-11 in float16: rounding in between would lose both small terms.
  const uint16_t one = 0x3c00, small = 0x1000;
  uint16_t result = 0;
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(&one), reinterpret_cast<const std::byte*>(&small),
                                reinterpret_cast<const std::byte*>(&small)};
  std::byte* const destination = reinterpret_cast<std::byte*>(&result);
  reduce_scalar({.datatype = TUTTI_FLOAT16, .sources = sources, .destinations = {&destination, 1}, .count = 1});
  CHECK(result == 0x3c01);
}

}  // namespace
}  // namespace tutti
