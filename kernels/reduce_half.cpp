// The reductions of 16-bit floats, for every instruction set.
#include "kernels/instruction_set.h"
#include "kernels/reduce_types.h"

#define HWY_TARGET_INCLUDE "kernels/reduce_half.cpp"
#include <hwy/foreach_target.h>

#include "kernels/reduce_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

void reduce_float16(const ReduceArgs& args) { reduce_type<ops::Float16>(args); }
void reduce_bfloat16(const ReduceArgs& args) { reduce_type<ops::Bfloat16>(args); }

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

void reduce_float16(const ReduceArgs& args) { TUTTI_KERNEL(reduce_float16)(args); }
void reduce_bfloat16(const ReduceArgs& args) { TUTTI_KERNEL(reduce_bfloat16)(args); }

}  // namespace tutti
#endif
