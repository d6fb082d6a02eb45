// The 8-bit floats: every load, every kind of rounding, and every pair of values on every instruction set. The
// reference is the list of all values, in float64 and searched from end to end.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cases.h"
#include "kernels/ops.h"

namespace tutti {
namespace {

constexpr uint8_t kNan = 0x7f;

struct Format {
  int exponent_bits;
  int largest;  // the bits of the largest finite value
  bool has_infinities;

  int mantissa_bits() const { return 7 - exponent_bits; }

  double value(int magnitude) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = magnitude >> mantissa_bits(), mantissa = magnitude % (1 << mantissa_bits());
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias - mantissa_bits());
    return std::ldexp(mantissa + (1 << mantissa_bits()), exponent - bias - mantissa_bits());
  }

  // What a stored byte means.
  double meaning(int stored) const {
    const int magnitude = stored & 0x7f;
    const double sign = stored & 0x80 ? -1 : 1;
    if (magnitude <= largest) return sign * value(magnitude);
    return has_infinities && magnitude == largest + 1 ? sign * INFINITY : NAN;
  }

  // Of two equally near values the one with an even last bit; the largest for all that lies beyond.
  uint8_t nearest(float number) const {
    if (std::isnan(number)) return kNan;
    const double magnitude = std::min<double>(std::fabs(number), value(largest));
    int best = 0;
    for (int candidate = 1; candidate <= largest; ++candidate) {
      const double gain = std::fabs(value(best) - magnitude) - std::fabs(value(candidate) - magnitude);
      if (gain > 0 || (gain == 0 && candidate % 2 == 0)) best = candidate;
    }
    return static_cast<uint8_t>((std::signbit(number) ? 0x80 : 0) | best);
  }
};

constexpr Format kE4m3{4, 0x7e, false};
constexpr Format kE5m2{5, 0x7b, true};

template <class Element>
void check_every_load(Format format) {
  for (int stored = 0; stored < 256; ++stored) {
    const float loaded = Element::load(static_cast<uint8_t>(stored));
    const double meaning = format.meaning(stored);
    INFO("0x" << std::hex << stored);
    if (std::isnan(meaning)) {
      CHECK(std::isnan(loaded));
    } else {
      CHECK(loaded == meaning);
      CHECK(std::signbit(loaded) == (stored >= 0x80));
    }
    if ((stored & 0x7f) <= format.largest) CHECK(Element::store(loaded) == stored);
  }
}

// Around every value and every middle between two, and everywhere else.
std::vector<float> numbers_to_round(Format format) {
  std::vector<float> numbers;
  const auto add = [&](float number) {
    numbers.push_back(number);
    numbers.push_back(-number);
  };
  for (uint32_t stored = 0; stored < 65536; ++stored) add(ops::Bfloat16::load(static_cast<uint16_t>(stored)));
  // The last interval ends at the largest value's successor, had the format one.
  for (int magnitude = 0; magnitude <= format.largest; ++magnitude) {
    const auto exact = static_cast<float>(format.value(magnitude));
    const auto middle = static_cast<float>((format.value(magnitude) + format.value(magnitude + 1)) / 2);
    for (const float number : {exact, middle}) {
      add(number);
      add(std::nextafterf(number, 0));
      add(std::nextafterf(number, INFINITY));
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) add(ops::bits_as<float>(static_cast<uint32_t>(random())));
  for (const float number : {std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) add(number);
  return numbers;
}

template <class Element>
void check_stores(Datatype datatype, Format format) {
  const std::vector<float> numbers = numbers_to_round(format);
  std::vector<uint8_t> nearest;
  size_t wrong = 0;
  for (const float number : numbers) {
    nearest.push_back(format.nearest(number));
    wrong += Element::store(number) != nearest.back();
  }
  CHECK(wrong == 0);
  for_each_target([&] {
    std::vector<uint8_t> narrowed(numbers.size());
    narrow(datatype, reinterpret_cast<std::byte*>(narrowed.data()), numbers.data(), numbers.size());
    INFO(name_of(datatype) << " on " << kernel_target());
    CHECK((narrowed == nearest));
  });
}

TEST_CASE("every 8-bit float widens to its value and rounds back to itself") {
  check_every_load<ops::Float8E4m3>(kE4m3);
  check_every_load<ops::Float8E5m2>(kE5m2);
}

TEST_CASE("float32 rounds to the nearest 8-bit float, ties to even, and saturates") {
  check_stores<ops::Float8E4m3>(TUTTI_FLOAT8_E4M3, kE4m3);
  check_stores<ops::Float8E5m2>(TUTTI_FLOAT8_E5M2, kE5m2);
}

std::vector<uint8_t> reduce_bytes(const ReduceArgs& shape, const std::vector<std::vector<uint8_t>>& inputs) {
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs) sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  std::vector<uint8_t> result(inputs[0].size());
  std::byte* const destination = reinterpret_cast<std::byte*>(result.data());
  ReduceArgs args = shape;
  args.sources = sources;
  args.destinations = {&destination, 1};
  args.count = result.size();
  reduce(args);
  std::vector<uint8_t> scalar(result.size());
  std::byte* const scalar_destination = reinterpret_cast<std::byte*>(scalar.data());
  args.destinations = {&scalar_destination, 1};
  reduce_scalar(args);
  if (result != scalar) FAIL_CHECK(describe(args) << ": not the scalar bits");
  return result;
}

// Kernels divide by some powers of two in another way than by other numbers.
std::vector<uint32_t> divisors_of_float8(ReduceOp op) {
  std::vector<uint32_t> divisors = divisors_of(op);
  if (divisors.size() > 1) divisors.insert(divisors.end(), {1, 2, 128, 256, 1u << 31});
  return divisors;
}

// All pairs, and all pairs with a third source that moves the sums off the values' own grid.
TEST_CASE("all pairs of 8-bit floats give the scalar bits on every target") {
  std::vector<std::vector<uint8_t>> pairs(2);
  for (int i = 0; i < 65536; ++i) {
    pairs[0].push_back(static_cast<uint8_t>(i >> 8));
    pairs[1].push_back(static_cast<uint8_t>(i));
  }
  auto triples = pairs;
  triples.push_back(pairs[0]);
  std::shuffle(triples[2].begin(), triples[2].end(), std::mt19937(1));
  for (const Datatype datatype : {TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2}) {
    for (const ReduceOp op : kOps) {
      for (const uint32_t divisor : divisors_of_float8(op)) {
        const ReduceArgs shape{.datatype = datatype, .op = op, .divisor = divisor};
        for_each_target([&] {
          reduce_bytes(shape, {pairs[0]});
          reduce_bytes(shape, pairs);
          reduce_bytes(shape, triples);
        });
      }
    }
  }
}

void check_sum(Datatype datatype, uint8_t a, uint8_t b, uint8_t expected) {
  INFO(name_of(datatype));
  CHECK(reduce_bytes({.datatype = datatype}, {{a}, {b}}) == std::vector<uint8_t>{expected});
}

TEST_CASE("8-bit results that are infinite or too large become the largest finite value, and NaN the one NaN") {
  check_sum(TUTTI_FLOAT8_E4M3, 0x7e, 0x7e, 0x7e);
  check_sum(TUTTI_FLOAT8_E4M3, 0xfe, 0xfe, 0xfe);
  check_sum(TUTTI_FLOAT8_E4M3, 0xff, 0x38, kNan);
  check_sum(TUTTI_FLOAT8_E5M2, 0x7b, 0x7b, 0x7b);
  check_sum(TUTTI_FLOAT8_E5M2, 0xfc, 0x3c, 0xfb);
  check_sum(TUTTI_FLOAT8_E5M2, 0x7c, 0xfc, kNan);
  check_sum(TUTTI_FLOAT8_E5M2, 0xfd, 0x3c, kNan);
}

TEST_CASE("8-bit floats round once, after all sources") {
  // 1 + 2^-4 + 2^-4 in e4m3: rounding in between would lose both small terms.
  CHECK(reduce_bytes({.datatype = TUTTI_FLOAT8_E4M3}, {{0x38}, {0x18}, {0x18}}) == std::vector<uint8_t>{0x39});
}

}  // namespace
}  // namespace tutti
