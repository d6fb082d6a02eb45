// The benchmark's inputs and expected results against plain arithmetic in the element type itself.
#include "benchmarks/pattern.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <type_traits>
#include <vector>

namespace tutti::bench {
namespace {

// Rounds every intermediate to 8 bits of mantissa: the worst that an implementation may do.
struct Bfloat16 {
  uint16_t bits = 0;

  Bfloat16() = default;
  explicit Bfloat16(float value) {
    auto wide = std::bit_cast<uint32_t>(value);
    bits = static_cast<uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};

template <typename Element, typename Combine>
Element with_bits(Element a, Element b, Combine combine) {
  if constexpr (std::is_integral_v<Element>) return static_cast<Element>(combine(a, b));
  return a;
}

template <typename Element>
Element combine(tutti_op_t op, Element a, Element b) {
  switch (op) {
    case TUTTI_PROD: return static_cast<Element>(a * b);
    case TUTTI_MAX: return std::max(a, b);
    case TUTTI_MIN: return std::min(a, b);
    case TUTTI_BAND: return with_bits(a, b, std::bit_and<>());
    case TUTTI_BOR: return with_bits(a, b, std::bit_or<>());
    case TUTTI_BXOR: return with_bits(a, b, std::bit_xor<>());
    default: return static_cast<Element>(a + b);
  }
}

template <typename Element>
Element divide(Element sum, int divisor) {
  if constexpr (sizeof(Element) == 2) {
    return static_cast<Element>(static_cast<float>(sum) / static_cast<float>(divisor));
  }
  return static_cast<Element>(sum / static_cast<Element>(divisor));
}

// Integers divide in a width that holds the number of ranks.
template <>
int8_t divide(int8_t sum, int divisor) { return static_cast<int8_t>(sum / divisor); }
template <>
uint8_t divide(uint8_t sum, int divisor) { return static_cast<uint8_t>(sum / divisor); }

// Reduces [first, last) of every element's contributions, as one chain or as a tree.
template <typename Element>
Element reduce(tutti_op_t op, const std::vector<std::vector<Element>>& inputs, size_t i, size_t first, size_t last,
               bool tree) {
  if (last - first == 1) return inputs[first][i];
  size_t middle = tree ? (first + last) / 2 : first + 1;
  return combine(op, reduce(op, inputs, i, middle, last, tree), reduce(op, inputs, i, first, middle, tree));
}

template <typename Element>
uint64_t wrong_after_reduction(tutti_datatype_t datatype, tutti_op_t op, int ranks, bool tree) {
  constexpr uint64_t kCount = 1500;
  Pattern pattern(datatype, op, ranks);
  std::vector<std::vector<Element>> inputs(ranks, std::vector<Element>(kCount));
  for (int rank = 0; rank < ranks; ++rank) pattern.fill(inputs[rank].data(), kCount, rank, 7);
  std::vector<Element> results(kCount);
  for (uint64_t i = 0; i < kCount; ++i) {
    results[i] = reduce(op, inputs, i, 0, inputs.size(), tree);
    if (op == TUTTI_AVG) results[i] = divide(results[i], ranks);
  }
  uint64_t wrong = pattern.wrong_results(results.data(), kCount, 7);
  for (int rank = 0; rank < ranks; ++rank) wrong += pattern.wrong_inputs(inputs[rank].data(), kCount, rank, 7);
  return wrong;
}

uint64_t wrong_after_reduction(tutti_datatype_t datatype, tutti_op_t op, int ranks, bool tree) {
  switch (datatype) {
    case TUTTI_INT8: return wrong_after_reduction<int8_t>(datatype, op, ranks, tree);
    case TUTTI_UINT8: return wrong_after_reduction<uint8_t>(datatype, op, ranks, tree);
    case TUTTI_INT32: return wrong_after_reduction<int32_t>(datatype, op, ranks, tree);
    case TUTTI_UINT32: return wrong_after_reduction<uint32_t>(datatype, op, ranks, tree);
    case TUTTI_INT64: return wrong_after_reduction<int64_t>(datatype, op, ranks, tree);
    case TUTTI_UINT64: return wrong_after_reduction<uint64_t>(datatype, op, ranks, tree);
    case TUTTI_FLOAT32: return wrong_after_reduction<float>(datatype, op, ranks, tree);
    case TUTTI_FLOAT64: return wrong_after_reduction<double>(datatype, op, ranks, tree);
    default: return wrong_after_reduction<Bfloat16>(datatype, op, ranks, tree);
  }
}

TEST_CASE("the expected results are exact in every order of reduction") {
  for (const DatatypeInfo& type : datatypes()) {
    bool has_arithmetic = !type.is_float || type.size_bytes > 2 || type.datatype == TUTTI_BFLOAT16;
    if (!has_arithmetic) continue;  // not on every compiler; see the next test
    for (const OpInfo& op : ops()) {
      if (!op.takes(type)) continue;
      for (int ranks : {1, 2, 3, 4, 5, 7, 8, 16, 33, 64, 128, 200, 300}) {
        INFO(type.name << " " << op.name << " with " << ranks << " ranks");
        REQUIRE(wrong_after_reduction(type.datatype, op.op, ranks, false) == 0);
        REQUIRE(wrong_after_reduction(type.datatype, op.op, ranks, true) == 0);
      }
    }
  }
}

TEST_CASE("float16 is encoded by round to nearest, ties to even") {
  REQUIRE(encode(TUTTI_FLOAT16, 0) == 0x0000);
  REQUIRE(encode(TUTTI_FLOAT16, 1) == 0x3C00);
  REQUIRE(encode(TUTTI_FLOAT16, -2) == 0xC000);
  REQUIRE(encode(TUTTI_FLOAT16, 2047) == 0x67FF);
  REQUIRE(encode(TUTTI_FLOAT16, 2048) == 0x6800);
  REQUIRE(encode(TUTTI_FLOAT16, 2049) == 0x6800);  // a tie
  REQUIRE(encode(TUTTI_FLOAT16, 2051) == 0x6802);  // a tie
  REQUIRE(encode_power_of_two(TUTTI_FLOAT16, -14, false) == 0x0400);
  REQUIRE(encode_power_of_two(TUTTI_FLOAT16, -24, true) == 0x8001);
  REQUIRE(encode_quotient(TUTTI_FLOAT16, 1, 3) == 0x3555);
}

TEST_CASE("8-bit floats are encoded by round to nearest, ties to even") {
  REQUIRE(encode(TUTTI_FLOAT8_E4M3, 1) == 0x38);
  REQUIRE(encode(TUTTI_FLOAT8_E4M3, -16) == 0xD8);
  REQUIRE(encode(TUTTI_FLOAT8_E4M3, 17) == 0x58);  // a tie
  REQUIRE(encode(TUTTI_FLOAT8_E4M3, 19) == 0x5A);  // a tie
  REQUIRE(encode(TUTTI_FLOAT8_E4M3, 448) == 0x7E);
  REQUIRE(encode_power_of_two(TUTTI_FLOAT8_E4M3, -6, false) == 0x08);
  REQUIRE(encode_power_of_two(TUTTI_FLOAT8_E4M3, -9, false) == 0x01);
  REQUIRE(encode_quotient(TUTTI_FLOAT8_E4M3, 1, 3) == 0x2B);
  REQUIRE(encode(TUTTI_FLOAT8_E5M2, 1) == 0x3C);
  REQUIRE(encode(TUTTI_FLOAT8_E5M2, -57344) == 0xFB);
  REQUIRE(encode_power_of_two(TUTTI_FLOAT8_E5M2, -16, true) == 0x81);
}

TEST_CASE("what is copied has all bits, and other ones on every rank and at every position") {
  constexpr uint64_t kCount = 4000;
  Pattern pattern(TUTTI_UINT8, std::nullopt, 4);
  std::vector<uint8_t> bytes(kCount);
  pattern.fill(bytes.data(), kCount, 1, 5, 1000);
  uint8_t all = 0, none = 0xFF;
  for (uint8_t byte : bytes) all |= byte, none &= byte;
  REQUIRE((all == 0xFF && none == 0));
  REQUIRE(pattern.wrong_inputs(bytes.data(), kCount, 1, 5, 1000) == 0);
  REQUIRE(pattern.wrong_inputs(bytes.data() + 500, kCount - 500, 1, 5, 1500) == 0);
  REQUIRE(pattern.wrong_inputs(bytes.data(), kCount, 2, 5, 1000) > kCount / 2);
  REQUIRE(pattern.wrong_inputs(bytes.data(), kCount, 1, 5, 1001) > kCount / 2);
}

TEST_CASE("data of another position, rank, call or length is seen") {
  constexpr uint64_t kCount = 5000;
  for (tutti_datatype_t datatype : {TUTTI_INT8, TUTTI_BFLOAT16, TUTTI_FLOAT32}) {
    Pattern pattern(datatype, TUTTI_SUM, 4);
    std::vector<uint32_t> buffer(kCount + 100);
    auto* bytes = reinterpret_cast<std::byte*>(buffer.data());
    pattern.fill(bytes, kCount + 64, 2, 5);
    REQUIRE(pattern.wrong_inputs(bytes, kCount, 2, 5) == 0);
    REQUIRE(pattern.wrong_inputs(bytes, kCount, 1, 5) > kCount / 2);
    REQUIRE(pattern.wrong_inputs(bytes, kCount, 2, 6) > kCount / 2);
    for (int shift : {1, 2, 16, 64}) {
      REQUIRE(pattern.wrong_inputs(bytes + shift * info(datatype).size_bytes, kCount, 2, 5) > kCount / 2);
    }
    bytes[1234 * info(datatype).size_bytes] ^= std::byte{1};
    REQUIRE(pattern.wrong_inputs(bytes, kCount, 2, 5) == 1);
  }
}

}  // namespace
}  // namespace tutti::bench
