// The fused kernel's instances as g++ compiles them, for machines without a GPU: tests.
#pragma once

#include <string_view>

#include "kernels/cuda/job.h"

namespace tutti::cuda {

// Runs what one thread of the launch does.
using FusedBody = void (*)(const FusedArgs& args, const Place& place);

// Null when there is no such instance.
FusedBody fused_body(std::string_view name);

}  // namespace tutti::cuda
