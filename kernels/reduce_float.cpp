// The reductions of 32-bit and 64-bit floats, for every instruction set.
#include "kernels/instruction_set.h"
#include "kernels/reduce_types.h"

#define HWY_TARGET_INCLUDE "kernels/reduce_float.cpp"
#include <hwy/foreach_target.h>

#include "kernels/reduce_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

void reduce_float32(const ReduceArgs& args) { reduce_type<ops::Plain<float>>(args); }
void reduce_float64(const ReduceArgs& args) { reduce_type<ops::Plain<double>>(args); }

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

void reduce_float32(const ReduceArgs& args) { TUTTI_KERNEL(reduce_float32)(args); }
void reduce_float64(const ReduceArgs& args) { TUTTI_KERNEL(reduce_float64)(args); }

}  // namespace tutti
#endif
