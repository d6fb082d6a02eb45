#include "pattern.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <vector>

namespace tutti::bench {
namespace {

// Numbers are the same in every process and on every machine: the standard fixes the engine, not the distributions.
using Random = std::mt19937_64;
constexpr uint64_t kTableSeed = 0x7475747469;  // "tutti"

uint64_t class_of(uint64_t position, uint64_t seed) {
  return (position + seed * 0x2545F4914F6CDD1D + 1) * 0x9E3779B97F4A7C15 >> 54;  // 10 bits: kClasses
}

// sums[c] = values[c] + values[c + 1] + ... over `ranks` values, cyclically.
std::vector<int64_t> window_sums(const std::vector<int64_t>& values, int ranks) {
  std::vector<int64_t> sums(values.size());
  for (size_t c = 0; c < values.size(); ++c) {
    for (int rank = 0; rank < ranks; ++rank) sums[c] += values[(c + rank) % values.size()];
  }
  return sums;
}

std::vector<int64_t> magnitudes(std::vector<int64_t> values) {
  for (int64_t& value : values) value = std::abs(value);
  return values;
}

// Random integers in [-largest, largest] ([0, largest] unless `is_signed`) of which any `ranks` neighbours have
// magnitudes that add up to at most `limit`. With more ranks than fit, most of them are 0.
std::vector<int64_t> bounded_values(size_t count, int ranks, int64_t largest, int64_t limit, bool is_signed) {
  Random random(kTableSeed);
  for (uint64_t one_in = 1;; one_in *= 2) {
    std::vector<int64_t> values(count);
    for (int64_t& value : values) {
      if (random() % one_in != 0) continue;
      value = static_cast<int64_t>(random() % static_cast<uint64_t>(largest + 1));
      if (is_signed && random() % 2) value = -value;
    }
    auto sums = window_sums(magnitudes(values), ranks);
    if (*std::max_element(sums.begin(), sums.end()) <= limit) return values;
  }
}

// Calls `use` with an unsigned integer of the element's size.
template <typename Use>
auto with_width(int size_bytes, const Use& use) {
  switch (size_bytes) {
    case 1: return use(uint8_t{});
    case 2: return use(uint16_t{});
    case 4: return use(uint32_t{});
    default: return use(uint64_t{});
  }
}

}  // namespace

Pattern::Pattern(tutti_datatype_t datatype, std::optional<tutti_op_t> op, int ranks)
    : type_(info(datatype)), ranks_(ranks) {
  if (!op) {
    make_copies();
  } else if (auto combine = info(*op).combine) {
    make_combined(combine);
  } else if (*op == TUTTI_PROD) {
    make_products();
  } else {
    make_sums(*op == TUTTI_AVG ? ranks : 1);
  }
}

void Pattern::make_sums(int64_t divisor) {
  int64_t largest = std::max<int64_t>(type_.exact_limit / ranks_, 1);
  auto values = bounded_values(kClasses, ranks_, largest, type_.exact_limit, type_.is_signed);
  auto sums = window_sums(values, ranks_);
  for (size_t c = 0; c < kClasses; ++c) {
    inputs_[c] = encode(type_.datatype, values[c]);
    results_[c] = divisor == 1 ? encode(type_.datatype, sums[c])
                               : encode_quotient(type_.datatype, sums[c], static_cast<int>(divisor));
  }
}

void Pattern::make_products() {
  auto exponents = bounded_values(kClasses, ranks_, 1, type_.exponent_limit, type_.is_float);
  Random random(kTableSeed + 1);
  std::vector<int64_t> negative(kClasses);
  if (type_.is_signed) std::generate(negative.begin(), negative.end(), [&] { return random() % 2; });
  auto exponent_sums = window_sums(exponents, ranks_);
  auto negative_counts = window_sums(negative, ranks_);
  for (size_t c = 0; c < kClasses; ++c) {
    inputs_[c] = encode_power_of_two(type_.datatype, static_cast<int>(exponents[c]), negative[c]);
    results_[c] = encode_power_of_two(type_.datatype, static_cast<int>(exponent_sums[c]), negative_counts[c] % 2);
  }
}

void Pattern::make_combined(int64_t (*combine)(int64_t, int64_t)) {
  auto values = bounded_values(kClasses, 1, type_.exact_limit, type_.exact_limit, type_.is_signed);
  for (size_t c = 0; c < kClasses; ++c) {
    inputs_[c] = encode(type_.datatype, values[c]);
    int64_t combined = values[c];
    for (int rank = 1; rank < ranks_; ++rank) combined = combine(combined, values[(c + rank) % kClasses]);
    results_[c] = encode(type_.datatype, combined);
  }
}

void Pattern::make_copies() {
  Random random(kTableSeed);
  for (Bits& input : inputs_) input = random();  // the low bytes are used
}

void Pattern::fill(void* buffer, uint64_t count, int rank, uint64_t seed, uint64_t position) const {
  with_width(type_.size_bytes, [&]<typename Element>(Element) {
    auto* elements = static_cast<Element*>(buffer);
    for (uint64_t i = 0; i < count; ++i) {
      elements[i] = static_cast<Element>(inputs_[(class_of(position + i, seed) + rank) % kClasses]);
    }
  });
}

uint64_t Pattern::differences(const Table& table, uint64_t rotation, const void* buffer, uint64_t count,
                              uint64_t seed, uint64_t position) const {
  return with_width(type_.size_bytes, [&]<typename Element>(Element) {
    const auto* elements = static_cast<const Element*>(buffer);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; ++i) {
      wrong += elements[i] != static_cast<Element>(table[(class_of(position + i, seed) + rotation) % kClasses]);
    }
    return wrong;
  });
}

uint64_t Pattern::wrong_inputs(const void* buffer, uint64_t count, int rank, uint64_t seed, uint64_t position) const {
  return differences(inputs_, static_cast<uint64_t>(rank), buffer, count, seed, position);
}

uint64_t Pattern::wrong_results(const void* buffer, uint64_t count, uint64_t seed, uint64_t position) const {
  return differences(results_, 0, buffer, count, seed, position);
}

}  // namespace tutti::bench
