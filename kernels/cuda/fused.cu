// The fused kernel's instances, by names that the driver finds them by.
#include "kernels/cuda/fused.h"

namespace tutti::cuda {

#define TUTTI_FUSED(name, element, operation, sources)                                                  \
  extern "C" __global__ void __launch_bounds__(kThreads, 1)                                             \
      tutti_fused_##name(const __grid_constant__ FusedArgs args) {                                      \
    fused<element, operation, sources>(args, {blockIdx.x, gridDim.x, threadIdx.x, blockDim.x});         \
  }
#include "kernels/cuda/fused_kernels.inc"
#undef TUTTI_FUSED

}  // namespace tutti::cuda
