// NaN, infinities, signed zeros, subnormals: on every instruction set the scalar bits, and what kernels.h promises.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

#include "kernels/cases.h"
#include "kernels/ops.h"

namespace tutti {
namespace {

template <class T>
std::vector<T> reduce_vectors(Datatype datatype, ReduceOp op, const std::vector<std::vector<T>>& inputs,
                              uint32_t divisor, bool scalar) {
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs) sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  std::vector<T> result(inputs[0].size());
  std::byte* const destination = reinterpret_cast<std::byte*>(result.data());
  const ReduceArgs args{.datatype = datatype,
                        .op = op,
                        .sources = sources,
                        .destinations = {&destination, 1},
                        .count = result.size(),
                        .divisor = divisor};
  (scalar ? reduce_scalar : reduce)(args);
  return result;
}

template <class T>
void check_against_scalar(Datatype datatype, const std::vector<std::vector<T>>& inputs) {
  for (const ReduceOp op : kOps) {
    for (const uint32_t divisor : divisors_of(op)) {
      const std::vector<T> expected = reduce_vectors(datatype, op, inputs, divisor, true);
      for_each_target([&] {
        INFO(name_of(datatype) << " " << name_of(op) << " divisor " << divisor << " on " << kernel_target());
        CHECK(reduce_vectors(datatype, op, inputs, divisor, false) == expected);
      });
    }
  }
}

// Every pair of the values, in both orders.
template <class T>
std::vector<std::vector<T>> all_pairs(const std::vector<T>& values) {
  std::vector<std::vector<T>> inputs(2);
  for (const T a : values) {
    for (const T b : values) {
      inputs[0].push_back(a);
      inputs[1].push_back(b);
    }
  }
  return inputs;
}

std::vector<uint32_t> special_float32() {
  std::vector<uint32_t> values = {0,          1,          0x007fffff, 0x00800000, 0x00800001, 0x33000000,
                                  0x3f7fffff, 0x3f800000, 0x3f800001, 0x477fefff, 0x477ff000, 0x47800000,
                                  0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff};
  for (size_t i = values.size(); i-- > 0;) values.push_back(values[i] | 0x80000000);
  return values;
}

std::vector<uint64_t> special_float64() {
  std::vector<uint64_t> values = {0,
                                  1,
                                  0x000fffffffffffff,
                                  0x0010000000000000,
                                  0x3ff0000000000000,
                                  0x3ff0000000000001,
                                  0x7fefffffffffffff,
                                  0x7ff0000000000000,
                                  0x7ff0000000000001,
                                  0x7ff8000000000000,
                                  0x7fffffffffffffff};
  for (size_t i = values.size(); i-- > 0;) values.push_back(values[i] | 0x8000000000000000);
  return values;
}

TEST_CASE("special values of float32 and float64 give the scalar bits") {
  check_against_scalar(TUTTI_FLOAT32, all_pairs(special_float32()));
  check_against_scalar(TUTTI_FLOAT64, all_pairs(special_float64()));
}

TEST_CASE("random bit patterns give the scalar bits") {
  std::mt19937_64 random(1);
  std::vector<std::vector<uint32_t>> words(3, std::vector<uint32_t>(100'003));
  for (auto& input : words) std::generate(input.begin(), input.end(), [&] { return static_cast<uint32_t>(random()); });
  check_against_scalar(TUTTI_FLOAT32, words);
  check_against_scalar(TUTTI_INT32, words);
  std::vector<std::vector<uint16_t>> halves(3, std::vector<uint16_t>(100'003));
  for (auto& input : halves) std::generate(input.begin(), input.end(), [&] { return static_cast<uint16_t>(random()); });
  check_against_scalar(TUTTI_FLOAT16, halves);
  check_against_scalar(TUTTI_BFLOAT16, halves);
}

// Sums and products with these reach every rounding case of the way back to 16 bits.
template <class Element>
void check_all_halves(Datatype datatype) {
  std::vector<uint16_t> all(65536);
  for (uint32_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  check_against_scalar<uint16_t>(datatype, {all});
  for (const float partner : {0.0f, -0.0f, 1.0f, 1.00390625f, -0.33325f, 6e-8f, 3.1e-5f, 1e-38f, 65504.0f}) {
    check_against_scalar<uint16_t>(datatype, {all, std::vector<uint16_t>(all.size(), Element::store(partner))});
  }
}

TEST_CASE("all float16 values give the scalar bits") { check_all_halves<ops::Float16>(TUTTI_FLOAT16); }
TEST_CASE("all bfloat16 values give the scalar bits") { check_all_halves<ops::Bfloat16>(TUTTI_BFLOAT16); }

TEST_CASE("a NaN anywhere gives the one quiet NaN, whatever the operation") {
  for (const ReduceOp op : kOps) {
    for (size_t where = 0; where < 3; ++where) {
      std::vector<std::vector<uint32_t>> inputs(3, std::vector<uint32_t>(37, 0x3f800000));
      inputs[where].assign(37, 0xff800123);
      for_each_target([&] {
        CHECK(reduce_vectors(TUTTI_FLOAT32, op, inputs, 0, false) == std::vector<uint32_t>(37, ops::kQuietNan32));
      });
    }
  }
}

TEST_CASE("the minimum of both zeros is -0 and the maximum +0, in either order") {
  const std::vector<uint32_t> plus(20, 0), minus(20, 0x80000000);
  for_each_target([&] {
    CHECK(reduce_vectors<uint32_t>(TUTTI_FLOAT32, TUTTI_MIN, {plus, minus}, 0, false) == minus);
    CHECK(reduce_vectors<uint32_t>(TUTTI_FLOAT32, TUTTI_MIN, {minus, plus}, 0, false) == minus);
    CHECK(reduce_vectors<uint32_t>(TUTTI_FLOAT32, TUTTI_MAX, {plus, minus}, 0, false) == plus);
    CHECK(reduce_vectors<uint32_t>(TUTTI_FLOAT32, TUTTI_MAX, {minus, plus}, 0, false) == plus);
  });
}

}  // namespace
}  // namespace tutti
