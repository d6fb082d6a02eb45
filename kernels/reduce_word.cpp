// The reductions of 32-bit and 64-bit integers, for every instruction set.
#include "kernels/instruction_set.h"
#include "kernels/reduce_types.h"

#define HWY_TARGET_INCLUDE "kernels/reduce_word.cpp"
#include <hwy/foreach_target.h>

#include "kernels/reduce_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

void reduce_int32(const ReduceArgs& args) { reduce_type<ops::Plain<int32_t>>(args); }
void reduce_uint32(const ReduceArgs& args) { reduce_type<ops::Plain<uint32_t>>(args); }
void reduce_int64(const ReduceArgs& args) { reduce_type<ops::Plain<int64_t>>(args); }
void reduce_uint64(const ReduceArgs& args) { reduce_type<ops::Plain<uint64_t>>(args); }

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

void reduce_int32(const ReduceArgs& args) { TUTTI_KERNEL(reduce_int32)(args); }
void reduce_uint32(const ReduceArgs& args) { TUTTI_KERNEL(reduce_uint32)(args); }
void reduce_int64(const ReduceArgs& args) { TUTTI_KERNEL(reduce_int64)(args); }
void reduce_uint64(const ReduceArgs& args) { TUTTI_KERNEL(reduce_uint64)(args); }

}  // namespace tutti
#endif
