// The order in which sources are combined, with values for which it matters.
#include <catch2/catch.hpp>

#include <cmath>

#include "kernels/cases.h"

namespace tutti {
namespace {

// As kernels.h has it: one level of the tree after the other.
float tree_sum(std::vector<float> level) {
  while (level.size() > 1) {
    std::vector<float> above;
    for (size_t j = 0; j + 1 < level.size(); j += 2) above.push_back(level[j] + level[j + 1]);
    if (level.size() % 2 == 1) above.push_back(level.back());
    level = std::move(above);
  }
  return level[0];
}

float chain_sum(const std::vector<float>& values) {
  float sum = values[0];
  for (size_t j = 1; j < values.size(); ++j) sum += values[j];
  return sum;
}

// Small and large ones of both signs: almost every addition rounds, and large ones cancel.
std::vector<std::vector<float>> rough_sources(size_t how_many, size_t count, std::mt19937& random) {
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::vector<std::vector<float>> sources(how_many, std::vector<float>(count));
  for (auto& source : sources) {
    for (float& value : source) {
      value = mantissa(random);
      value = std::ldexp(value, static_cast<int>(random() % 24));
    }
  }
  return sources;
}

std::vector<float> element_of_each(const std::vector<std::vector<float>>& sources, size_t i) {
  std::vector<float> values;
  for (const auto& source : sources) values.push_back(source[i]);
  return values;
}

std::vector<float> reduced(void (*reduce)(const ReduceArgs&), const std::vector<std::vector<float>>& sources) {
  std::vector<const std::byte*> pointers;
  for (const auto& source : sources) pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
  std::vector<float> result(sources[0].size());
  std::byte* const destination = reinterpret_cast<std::byte*>(result.data());
  reduce({.sources = pointers, .destinations = {&destination, 1}, .count = result.size()});
  return result;
}

void check_tree(size_t how_many, size_t count, std::mt19937& random) {
  const auto sources = rough_sources(how_many, count, random);
  std::vector<float> expected;
  for (size_t i = 0; i < count; ++i) expected.push_back(tree_sum(element_of_each(sources, i)));
  INFO(how_many << " sources of " << count << " elements");
  CHECK(reduced(reduce_scalar, sources) == expected);
  for_each_target([&] {
    INFO(kernel_target());
    CHECK(reduced(reduce, sources) == expected);
  });
}

TEST_CASE("sources are combined by the tree over their positions") {
  std::mt19937 random(1);
  for (size_t how_many = 1; how_many <= 17; ++how_many) {
    for (const size_t count : {1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 300}) {
      check_tree(how_many, count, random);
    }
  }
  for (const size_t how_many : {31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 1000}) {
    check_tree(how_many, 83, random);
  }
}

TEST_CASE("the values of these tests tell a tree from a chain") {
  std::mt19937 random(1);
  for (size_t how_many = 4; how_many <= 17; ++how_many) {
    const auto sources = rough_sources(how_many, 300, random);
    size_t different = 0;
    for (size_t i = 0; i < 300; ++i) {
      const auto values = element_of_each(sources, i);
      different += tree_sum(values) != chain_sum(values);
    }
    CHECK(different > 30);  // of 300: from 43 (5 sources) to 203 were seen, with several seeds
  }
}

TEST_CASE("the largest number of sources is combined, and one less") {
  std::mt19937 random(1);
  const auto few = rough_sources(7, 21, random);
  for (const size_t how_many : {kMaxSources, kMaxSources - 1}) {
    std::vector<std::vector<float>> values(21);
    std::vector<const std::byte*> pointers;
    for (size_t j = 0; j < how_many; ++j) {
      const auto& source = few[j % few.size()];
      pointers.push_back(reinterpret_cast<const std::byte*>(source.data()));
      for (size_t i = 0; i < source.size(); ++i) values[i].push_back(source[i]);
    }
    for_each_target([&] {
      std::vector<float> result(21);
      std::byte* const destination = reinterpret_cast<std::byte*>(result.data());
      reduce({.sources = pointers, .destinations = {&destination, 1}, .count = result.size()});
      for (size_t i = 0; i < result.size(); ++i) CHECK(result[i] == tree_sum(values[i]));
    });
  }
}

}  // namespace
}  // namespace tutti
