// The device code that is built into the module.
#pragma once

namespace tutti::cuda {

// A fat binary, as cuModuleLoadData() takes it; null where none was built.
extern const void* const kDeviceCode;

inline constexpr const char* kKernelNames[] = {
#define TUTTI_FUSED(name, element, operation, sources) "tutti_fused_" #name,
#include "kernels/cuda/fused_kernels.inc"
#undef TUTTI_FUSED
};

}  // namespace tutti::cuda
