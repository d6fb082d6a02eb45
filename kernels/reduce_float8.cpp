// The reductions of 8-bit floats, for every instruction set.
#include "kernels/instruction_set.h"
#include "kernels/reduce_types.h"

#define HWY_TARGET_INCLUDE "kernels/reduce_float8.cpp"
#include <hwy/foreach_target.h>

#include "kernels/reduce_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

void reduce_float8_e4m3(const ReduceArgs& args) { reduce_type<ops::Float8E4m3>(args); }
void reduce_float8_e5m2(const ReduceArgs& args) { reduce_type<ops::Float8E5m2>(args); }

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

void reduce_float8_e4m3(const ReduceArgs& args) { TUTTI_KERNEL(reduce_float8_e4m3)(args); }
void reduce_float8_e5m2(const ReduceArgs& args) { TUTTI_KERNEL(reduce_float8_e5m2)(args); }

}  // namespace tutti
#endif
