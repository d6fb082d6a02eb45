#include "own_function.h"

#include <cstddef>
#include <cstring>

#include "call.h"

namespace differential {
namespace {

// Of elements of `bits` bits; what the result has beyond is cut off.
using Combine = uint64_t (*)(uint64_t lower, uint64_t higher, size_t bits);

uint64_t joined(uint64_t lower, uint64_t higher, size_t) { return lower + higher + lower * higher; }

// The factor is the upper half of the bits. Odd ones keep every bit of what they multiply alive.
uint64_t composed(uint64_t lower, uint64_t higher, size_t bits) {
  size_t half = bits / 2;
  uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t first_factor = lower >> half | 1, then_factor = higher >> half | 1;
  uint64_t factor = first_factor * then_factor, offset = then_factor * lower + higher;
  return (factor & mask) << half | (offset & mask);
}

template <Combine combine>
void combine_all(const void* in, void* in_out, uint64_t count, size_t size) {
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t lower = 0, higher = 0;
    std::byte* at = static_cast<std::byte*>(in_out) + i * size;
    std::memcpy(&lower, static_cast<const std::byte*>(in) + i * size, size);
    std::memcpy(&higher, at, size);
    uint64_t result = combine(lower, higher, 8 * size);
    std::memcpy(at, &result, size);
  }
}

template <Combine combine>
void for_tutti(const void* in, void* in_out, uint64_t count, tutti_datatype_t datatype, void* context) {
  const Datatype& expected = *static_cast<const Call*>(context)->datatype;
  if (datatype == expected.id) combine_all<combine>(in, in_out, count, expected.size);
}

template <Combine combine>
void for_mpi(void* in, void* in_out, int* count, MPI_Datatype* type) {
  int size = 0;
  MPI_Type_size(*type, &size);
  combine_all<combine>(in, in_out, static_cast<uint64_t>(*count), static_cast<size_t>(size));
}

}  // namespace

OwnFunction joining() { return {for_tutti<joined>, for_mpi<joined>}; }

OwnFunction composing() { return {for_tutti<composed>, for_mpi<composed>}; }

}  // namespace differential
