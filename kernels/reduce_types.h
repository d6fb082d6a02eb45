// One reduction per element type, each dispatched to the instruction set of this processor; reduce() chooses among
// them.
#pragma once

#include "base/check.h"
#include "kernels/kernels.h"

namespace tutti {

void reduce_int8(const ReduceArgs& args);
void reduce_uint8(const ReduceArgs& args);
void reduce_int32(const ReduceArgs& args);
void reduce_uint32(const ReduceArgs& args);
void reduce_int64(const ReduceArgs& args);
void reduce_uint64(const ReduceArgs& args);
void reduce_float16(const ReduceArgs& args);
void reduce_float32(const ReduceArgs& args);
void reduce_float64(const ReduceArgs& args);
void reduce_bfloat16(const ReduceArgs& args);
void reduce_float8_e4m3(const ReduceArgs& args);
void reduce_float8_e5m2(const ReduceArgs& args);

// The bitwise operations, of bytes: they do not care where an element ends.
void reduce_bits(const ReduceArgs& args);

// What reduce() and reduce_scalar() demand.
inline void check_args(const ReduceArgs& args) {
  TUTTI_CHECK(!args.sources.empty() && args.sources.size() <= kMaxSources && !args.destinations.empty());
  TUTTI_CHECK(is_defined_for(args.op, args.datatype));
  TUTTI_CHECK(args.divisor == 0 || args.op == TUTTI_SUM || args.op == TUTTI_AVG);
}

}  // namespace tutti
