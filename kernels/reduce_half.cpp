// The reductions of 16-bit floats, for every instruction set.
#include "kernels/reduce_types.h"
#include "kernels/simd_targets.h"

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

HWY_EXPORT(reduce_float16);
HWY_EXPORT(reduce_bfloat16);

void reduce_float16(const ReduceArgs& args) { HWY_DYNAMIC_DISPATCH(reduce_float16)(args); }
void reduce_bfloat16(const ReduceArgs& args) { HWY_DYNAMIC_DISPATCH(reduce_bfloat16)(args); }

}  // namespace tutti
#endif
