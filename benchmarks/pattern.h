// Inputs whose reduction is known exactly, whatever the order of the operations and the rounding between them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "element.h"
#include "tutti/tutti.h"

namespace tutti::bench {

// Position i belongs to class(i), a hash of i and the seed; rank r holds inputs[class + r] there (cyclically), and the
// result is results[class]. Sums and averages use integers whose partial sums are exact in the type, products powers of
// two (with signs), minima and maxima the whole exact range. So a wrong order, a lost or doubled contribution, data of
// another position and data of another call are all seen, and `wrong` is a count of unequal bits without any tolerance.
class Pattern {
 public:
  Pattern(tutti_datatype_t datatype, tutti_op_t op, int ranks);

  // Writes rank `rank`'s input of the call with this seed.
  void fill(void* buffer, uint64_t count, int rank, uint64_t seed) const;
  // How many of the elements are not what `rank` put in; what the call should leave.
  uint64_t wrong_inputs(const void* buffer, uint64_t count, int rank, uint64_t seed) const;
  uint64_t wrong_results(const void* buffer, uint64_t count, uint64_t seed) const;

 private:
  static constexpr size_t kClasses = 1024;
  using Table = std::array<Bits, kClasses>;

  void make_sums(int64_t divisor);
  void make_products();
  void make_extremes();
  uint64_t differences(const Table& table, uint64_t rotation, const void* buffer, uint64_t count, uint64_t seed) const;

  const DatatypeInfo& type_;
  tutti_op_t op_;
  int ranks_;
  Table inputs_ = {};
  Table results_ = {};
};

}  // namespace tutti::bench
