// What the tests of the kernels share: memory with guards, values, and a walk over the instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernels.h"

namespace tutti {

constexpr Datatype kDatatypes[] = {TUTTI_INT8,    TUTTI_UINT8,    TUTTI_INT32,       TUTTI_UINT32,
                                   TUTTI_INT64,   TUTTI_UINT64,   TUTTI_FLOAT16,     TUTTI_FLOAT32,
                                   TUTTI_FLOAT64, TUTTI_BFLOAT16, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2};
constexpr ReduceOp kOps[] = {TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN, TUTTI_AVG};  // defined for all types
constexpr ReduceOp kBitwiseOps[] = {TUTTI_BAND, TUTTI_BOR, TUTTI_BXOR};

// Those that this type has.
std::vector<ReduceOp> ops_of(Datatype datatype);

// 0, and for operations whose results may be divided some others.
std::vector<uint32_t> divisors_of(ReduceOp op);

// Calls `body` once per instruction set that is compiled in and that this processor has, with that set in use.
void for_each_target(const std::function<void()>& body);

// `size` bytes at `misalignment` from a cache line, with guard bytes on both sides.
class GuardedBuffer {
 public:
  GuardedBuffer(size_t size, size_t misalignment);

  std::byte* data() { return storage_.data() + begin_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data(), size_}; }
  bool guards_intact() const;

 private:
  std::vector<std::byte> storage_;
  size_t begin_;
  size_t size_;
};

// Floats are finite, of mixed sign and magnitude; integers take any value.
void fill_with_values(std::span<std::byte> bytes, Datatype datatype, std::mt19937_64& random);

// The names of datatype and operation, and the numbers: what a failure is printed with.
std::string describe(const ReduceArgs& args);

}  // namespace tutti
