// How partial results travel: sums of which some contributor is still missing.
#pragma once

#include <cstdint>

#include "base/types.h"

namespace tutti {

// So many times as large as a contribution or a result is a partial result, in temps and in messages: sums and products
// of 8- and 16-bit floats grow in float32 and are rounded once, when they are finished. Minima and maxima lose nothing,
// and a function of the program combines values of the datatype.
constexpr uint32_t partial_growth(Collective collective, Datatype datatype, ReduceOp op) {
  bool is_narrow_float = !is_integer(datatype) && size_of(datatype) < sizeof(float);
  bool rounds = op == TUTTI_SUM || op == TUTTI_PROD || op == TUTTI_AVG || op == kPreMulSum;
  bool grows = reduces(collective) && is_narrow_float && rounds;
  return grows ? static_cast<uint32_t>(sizeof(float) / size_of(datatype)) : 1;
}

// Of any datatype and operation.
inline constexpr uint32_t kMostPartialGrowth = sizeof(float);

}  // namespace tutti
