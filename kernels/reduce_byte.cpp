// The reductions of 8-bit integers, and of the bits of all integers, for every instruction set.
#include "kernels/instruction_set.h"
#include "kernels/reduce_types.h"

#define HWY_TARGET_INCLUDE "kernels/reduce_byte.cpp"
#include <hwy/foreach_target.h>

#include "kernels/reduce_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tutti::HWY_NAMESPACE {

void reduce_int8(const ReduceArgs& args) { reduce_type<ops::Plain<int8_t>>(args); }
void reduce_uint8(const ReduceArgs& args) { reduce_type<ops::Plain<uint8_t>>(args); }
void reduce_bits(const ReduceArgs& args) { reduce_bitwise<ops::Plain<uint8_t>>(args); }

}  // namespace tutti::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tutti {

void reduce_int8(const ReduceArgs& args) { TUTTI_KERNEL(reduce_int8)(args); }
void reduce_uint8(const ReduceArgs& args) { TUTTI_KERNEL(reduce_uint8)(args); }
void reduce_bits(const ReduceArgs& args) { TUTTI_KERNEL(reduce_bits)(args); }

}  // namespace tutti
#endif
