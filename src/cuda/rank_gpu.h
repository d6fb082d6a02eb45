// What a rank launches on its GPU (kernels/cuda), and the memory that these launches use.
#pragma once

#include <memory>

#include "cuda/driver.h"
#include "cuda/shared_buffers.h"
#include "device/device.h"

namespace tutti::cuda {

// `own` outlives it. Errors: the device code does not run on that device, or was not built.
Result<std::unique_ptr<RankGpu>> make_rank_gpu(const Driver& driver, OwnBuffers& own, const DeviceModule::Gpu& gpu,
                                               Kernels kernels, const KernelWords& words);

}  // namespace tutti::cuda
