// Which instance of the fused kernel a call runs.
#pragma once

#include <string>

#include "base/types.h"

namespace tutti::cuda {

// "tutti_fused_float32_sum_of_4". `op` has no meaning where nothing is combined: with one source, elements are copied.
std::string fused_kernel_name(Datatype datatype, ReduceOp op, uint32_t sources);

}  // namespace tutti::cuda
