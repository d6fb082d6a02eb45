#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/reduce_types.h"

namespace tutti {

namespace {

ReduceArgs as_bytes(ReduceArgs args) {
  args.count *= size_of(args.datatype);
  args.datatype = TUTTI_UINT8;
  return args;
}

}  // namespace

void reduce(const ReduceArgs& args) {
  check_args(args);
  if (is_bitwise(args.op)) return reduce_bits(as_bytes(args));
  switch (args.datatype) {
    case TUTTI_INT8: return reduce_int8(args);
    case TUTTI_UINT8: return reduce_uint8(args);
    case TUTTI_INT32: return reduce_int32(args);
    case TUTTI_UINT32: return reduce_uint32(args);
    case TUTTI_INT64: return reduce_int64(args);
    case TUTTI_UINT64: return reduce_uint64(args);
    case TUTTI_FLOAT16: return reduce_float16(args);
    case TUTTI_FLOAT32: return reduce_float32(args);
    case TUTTI_FLOAT64: return reduce_float64(args);
    case TUTTI_BFLOAT16: return reduce_bfloat16(args);
    case TUTTI_FLOAT8_E4M3: return reduce_float8_e4m3(args);
    case TUTTI_FLOAT8_E5M2: return reduce_float8_e5m2(args);
  }
  TUTTI_CHECK(is_valid(args.datatype));
}

}  // namespace tutti
