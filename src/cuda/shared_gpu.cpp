#include "cuda/shared_gpu.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "cuda/order.h"
#include "kernels/cuda/device_code.h"
#include "cuda/shared_buffers.h"

namespace tutti::cuda {
namespace {

// Of all kernels, in one context.
class Kernels {
 public:
  explicit Kernels(const Driver& driver) : driver_(driver) {}
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // A driver brings a function to the device when it is first asked about it, and may wait for the device then: here is
  // the place for that.
  Status load() {
    if (functions_.size() == std::size(kKernelNames)) return {};
    if (kDeviceCode == nullptr) {
      return error(Code::kCuda, "this build of tutti has no device code; build it where nvcc of CUDA 13 is");
    }
    if (module_ == nullptr) TUTTI_CUDA_TRY(driver_, cuModuleLoadData, &module_, kDeviceCode);
    for (const char* name : kKernelNames) {
      CUfunction function = nullptr;
      int registers = 0;
      TUTTI_CUDA_TRY(driver_, cuModuleGetFunction, &function, module_, name);
      TUTTI_CUDA_TRY(driver_, cuFuncGetAttribute, &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
      functions_.emplace(name, function);
    }
    return {};
  }
  Result<CUfunction> find(std::string_view name) const {
    auto found = functions_.find(name);
    if (found == functions_.end()) return error(Code::kInternal, "there is no kernel {}; please report this", name);
    return found->second;
  }

 private:
  const Driver& driver_;
  CUmodule module_ = nullptr;
  std::map<std::string, CUfunction, std::less<>> functions_;
};

// They stay loaded as long as the process lives: letting go of code waits for the device.
Result<const Kernels*> kernels_of(const Driver& driver, CUcontext context) {
  static std::mutex mutex;
  static auto* all = new std::map<CUcontext, std::unique_ptr<Kernels>>;
  std::lock_guard lock(mutex);
  auto& kernels = (*all)[context];
  if (kernels == nullptr) kernels = std::make_unique<Kernels>(driver);
  TUTTI_TRY(kernels->load());
  return const_cast<const Kernels*>(kernels.get());
}

class OfRank : public SharedGpu {
 public:
  OfRank(const Driver& driver, CUcontext context, const Kernels& kernels, CUdeviceptr cancelled, int most_blocks)
      : driver_(driver),
        context_(context),
        kernels_(kernels),
        cancelled_(reinterpret_cast<const uint32_t*>(cancelled)),
        most_blocks_(static_cast<unsigned>(most_blocks)),
        opened_(driver, context) {}

  Result<uint64_t> open(const DeviceBuffer& buffer) override { return opened_.open(buffer); }

  Status launch(const DeviceStream& stream, StreamOrder& order, const Launch& launch) override {
    CUfunction kernel = TUTTI_TRY(kernels_.find(launch.kernel));
    Current current = TUTTI_TRY(Current::make(driver_, context_));
    auto& calls = static_cast<Order&>(order);
    TUTTI_TRY(calls.begin(stream, 0));
    CUstream handle = handle_of(stream);
    TUTTI_TRY(put_store(driver_, handle, launch.reached));
    for (const WordValue& each : launch.waits) TUTTI_TRY(put_wait(driver_, handle, each));
    for (const FusedArgs& each : launch.args) {
      FusedArgs args = each;
      args.cancelled = cancelled_;
      auto blocks = static_cast<unsigned>(std::min<uint64_t>(args.tiles, most_blocks_));
      void* parameters[] = {&args};
      TUTTI_CUDA_TRY(driver_, cuLaunchKernel, kernel, blocks, 1, 1, kThreads, 1, 1, 0, handle, parameters, nullptr);
    }
    for (const WordValue& each : launch.stores) TUTTI_TRY(put_store(driver_, handle, each));
    return calls.end(stream, 0);
  }

 private:
  const Driver& driver_;
  const CUcontext context_;
  const Kernels& kernels_;
  const uint32_t* const cancelled_;  // as the device sees it
  const unsigned most_blocks_;
  OpenedBuffers opened_;
};

}  // namespace

Result<std::unique_ptr<SharedGpu>> make_shared_gpu(const Driver& driver, const DeviceModule::Gpu& gpu,
                                                   uint32_t* cancelled) {
  constexpr int kBlocksPerProcessor = 2;
  BesideCaptures beside(driver);
  auto* context = static_cast<CUcontext>(gpu.context);
  Current current = TUTTI_TRY(Current::make(driver, context));
  const Kernels* kernels = TUTTI_TRY(kernels_of(driver, context));
  int processors = 0;
  TUTTI_CUDA_TRY(driver, cuDeviceGetAttribute, &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device);
  CUdeviceptr seen = TUTTI_TRY(seen_by_device(driver, cancelled));
  return std::unique_ptr<SharedGpu>(
      std::make_unique<OfRank>(driver, context, *kernels, seen, processors * kBlocksPerProcessor));
}

}  // namespace tutti::cuda
