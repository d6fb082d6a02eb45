// What buffers of floats hold before and after collective calls: values whose sums are exact in any order. For tests.
#pragma once

#include <fmt/format.h>

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

// Those from `first` on of `nranks` ranks from `rank` on, summed.
TUTTI_UNWATCHED inline void sum_elements(int rank, int nranks, int round, size_t first, float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int each = rank; each < rank + nranks; ++each) sum += element(each, round, first + i);
    values[i] = sum;
  }
}

// Elements `first` and those behind it of what `rank` contributes.
inline std::vector<float> contribution(int rank, int round, size_t count, size_t first = 0) {
  return worked_out<float>(count, [&](float* values) { sum_elements(rank, 1, round, first, values, count); });
}

// The same of all ranks, summed.
inline std::vector<float> sum_of_all(int nranks, int round, size_t count, size_t first = 0) {
  return worked_out<float>(count, [&](float* values) { sum_elements(0, nranks, round, first, values, count); });
}

// The same of all ranks, one behind the other.
inline std::vector<float> blocks_of_all(int nranks, int round, size_t block, size_t first = 0) {
  return worked_out<float>(block * static_cast<size_t>(nranks), [&](float* values) {
    for (int rank = 0; rank < nranks; ++rank) {
      sum_elements(rank, 1, round, first, values + static_cast<size_t>(rank) * block, block);
    }
  });
}

// "" when it is the same, bit for bit.
inline std::string compare(const float* got, const std::vector<float>& wanted, std::string_view what) {
  if (wanted.empty() || std::memcmp(got, wanted.data(), wanted.size() * sizeof(float)) == 0) return "";
  size_t i = 0;
  while (i < wanted.size() && std::memcmp(&got[i], &wanted[i], sizeof(float)) == 0) ++i;
  if (i == wanted.size()) return fmt::format("{}: has changed while it was looked at", what);
  return fmt::format("{}: element {} is {} and should be {}", what, i, got[i], wanted[i]);
}

}  // namespace tutti::test
