// Launches of the fused kernel (kernels/cuda).
#pragma once

#include <memory>

#include "cuda/driver.h"
#include "device/device.h"

namespace tutti::cuda {

// Errors: the device code does not run on that device, or was not built.
Result<std::unique_ptr<SharedGpu>> make_shared_gpu(const Driver& driver, const DeviceModule::Gpu& gpu,
                                                   uint32_t* cancelled);

}  // namespace tutti::cuda
