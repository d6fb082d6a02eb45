// An operation that the program made: a function of its own, or a factor for its contributions.
#pragma once

#include <array>
#include <cstddef>

#include "base/types.h"

namespace tutti {

struct OwnOp {
  ReduceOp kind = kPreMulSum;                 // kPreMulSum, kOwnFunction or kOrderedFunction
  ReduceOp number = TUTTI_SUM;                // that calls name it by, on all ranks alike
  Datatype datatype = TUTTI_FLOAT32;          // kPreMulSum: that it is for
  std::array<std::byte, 8> factor{};          // kPreMulSum: one element
  tutti_reduce_function_t function = nullptr;
  void* context = nullptr;
  friend bool operator==(const OwnOp&, const OwnOp&) = default;
};

}  // namespace tutti
