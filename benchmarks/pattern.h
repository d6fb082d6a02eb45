// Inputs of which every rank knows what a collective makes: what others hold at a position, and the exact reduction,
// whatever the order of the operations and the rounding between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "element.h"
#include "tutti/tutti.h"

namespace tutti::bench {

// Position i belongs to class(i), a hash of i and the seed; rank r holds inputs[class + r] there (cyclically), and the
// result is results[class]. Sums and averages use integers whose partial sums are exact in the type, products powers of
// two (with signs), minima, maxima and bitwise operations the whole exact range, and copies all bits. So a wrong order,
// a lost or doubled contribution, data of another position and data of another call are all seen, and `wrong` is a
// count of unequal bits without any tolerance.
class Pattern {
 public:
  // Without an operation: for collectives that copy.
  Pattern(tutti_datatype_t datatype, std::optional<tutti_op_t> op, int ranks);

  const DatatypeInfo& type() const { return type_; }

  // Writes what rank `rank` holds at [position, position + count) in the call with this seed.
  void fill(void* buffer, uint64_t count, int rank, uint64_t seed, uint64_t position = 0) const;
  // How many of these elements are not what `rank` put in; are not the reduction.
  uint64_t wrong_inputs(const void* buffer, uint64_t count, int rank, uint64_t seed, uint64_t position = 0) const;
  uint64_t wrong_results(const void* buffer, uint64_t count, uint64_t seed, uint64_t position = 0) const;

 private:
  static constexpr size_t kClasses = 1024;
  using Table = std::array<Bits, kClasses>;

  void make_sums(int64_t divisor);
  void make_products();
  void make_combined(int64_t (*combine)(int64_t, int64_t));
  void make_copies();
  uint64_t differences(const Table& table, uint64_t rotation, const void* buffer, uint64_t count, uint64_t seed,
                       uint64_t position) const;

  const DatatypeInfo& type_;
  int ranks_;
  Table inputs_ = {};
  Table results_ = {};
};

}  // namespace tutti::bench
