// What a rank launches on its GPU (kernels/cuda), and the memory that these launches use.
#pragma once

#include <memory>

#include "cuda/driver.h"
#include "cuda/pinned_words.h"
#include "cuda/shared_buffers.h"
#include "device/device.h"

namespace tutti::cuda {

// `pinned`, which has the words, and `own` outlive it. Errors: the device code does not run on that device, or was not
// built.
Result<std::unique_ptr<RankGpu>> make_rank_gpu(const PinnedMemory& pinned, OwnBuffers& own,
                                               const DeviceModule::Gpu& gpu, Kernels kernels,
                                               const KernelWords& words);

}  // namespace tutti::cuda
