// What buffers of floats hold before and after collective calls: values whose sums are exact in any order. For tests.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/sanitizers.h"

namespace tutti::test {

// Element i of what `rank` contributes in round `round`.
TUTTI_UNWATCHED inline float element(int rank, int round, size_t i) {
  return static_cast<float>((i * 7 + static_cast<size_t>(rank * 13 + round * 5)) % 31) - 15;
}

TUTTI_UNWATCHED inline void add_elements(int rank, int round, size_t first, float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] += element(rank, round, first + i);
}

// Elements `first` and those behind it of what `rank` contributes.
inline std::vector<float> contribution(int rank, int round, size_t count, size_t first = 0) {
  std::vector<float> values(count);
  add_elements(rank, round, first, values.data(), count);
  return values;
}

// The same of all ranks, summed.
inline std::vector<float> sum_of_all(int nranks, int round, size_t count, size_t first = 0) {
  std::vector<float> values(count);
  for (int rank = 0; rank < nranks; ++rank) add_elements(rank, round, first, values.data(), count);
  return values;
}

// The same of all ranks, one behind the other.
inline std::vector<float> blocks_of_all(int nranks, int round, size_t block, size_t first = 0) {
  std::vector<float> values(block * static_cast<size_t>(nranks));
  for (int rank = 0; rank < nranks; ++rank) {
    add_elements(rank, round, first, values.data() + static_cast<size_t>(rank) * block, block);
  }
  return values;
}

// "" when it is the same, bit for bit.
inline std::string compare(const float* got, const std::vector<float>& wanted, std::string_view what) {
  if (std::memcmp(got, wanted.data(), wanted.size() * sizeof(float)) == 0) return "";
  size_t i = 0;
  while (i < wanted.size() && std::memcmp(&got[i], &wanted[i], sizeof(float)) == 0) ++i;
  if (i == wanted.size()) return fmt::format("{}: has changed while it was looked at", what);
  return fmt::format("{}: element {} is {} and should be {}", what, i, got[i], wanted[i]);
}

}  // namespace tutti::test
