#include "cuda/rank_gpu.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "cuda/order.h"
#include "kernels/cuda/device_code.h"
#include "kernels/cuda/gpu_program.h"

namespace tutti::cuda {
namespace {

// Of one piece of device code, in one context.
class LoadedCode {
 public:
  LoadedCode(const Driver& driver, const DeviceCode& code) : driver_(driver), code_(code) {}
  LoadedCode(const LoadedCode&) = delete;
  LoadedCode& operator=(const LoadedCode&) = delete;

  // A driver brings a function to the device when it is first asked about it, and may wait for the device then: here is
  // the place for that.
  Status load() {
    if (functions_.size() == code_.kernels.size()) return {};
    if (code_.image == nullptr) {
      return error(Code::kCuda, "this build of tutti has no device code; build it where nvcc of CUDA 13 is");
    }
    if (module_ == nullptr) TUTTI_CUDA_TRY(driver_, cuModuleLoadData, &module_, code_.image);
    for (const char* name : code_.kernels) {
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
  const DeviceCode& code_;
  CUmodule module_ = nullptr;
  std::map<std::string, CUfunction, std::less<>> functions_;
};

// It stays loaded as long as the process lives: letting go of code waits for the device.
Result<const LoadedCode*> load(const Driver& driver, const DeviceCode& code, CUcontext context) {
  static std::mutex mutex;
  static auto* all = new std::map<std::pair<CUcontext, const DeviceCode*>, std::unique_ptr<LoadedCode>>;
  std::lock_guard lock(mutex);
  auto& loaded = (*all)[{context, &code}];
  if (loaded == nullptr) loaded = std::make_unique<LoadedCode>(driver, code);
  TUTTI_TRY(loaded->load());
  return const_cast<const LoadedCode*>(loaded.get());
}

struct SeenWords {
  CUdeviceptr cancelled = 0;
  CUdeviceptr late = 0;  // 0: none
};

class OfRank : public RankGpu {
 public:
  OfRank(const Driver& driver, OwnBuffers& own, CUcontext context, const LoadedCode& code, const SeenWords& words,
         int most_blocks)
      : driver_(driver),
        own_(own),
        context_(context),
        code_(code),
        cancelled_(reinterpret_cast<const uint32_t*>(words.cancelled)),
        late_(reinterpret_cast<uint32_t*>(words.late)),
        most_blocks_(static_cast<unsigned>(most_blocks)),
        opened_(driver, context) {}

  Result<uint64_t> open(const DeviceBuffer& buffer) override { return opened_.open(buffer); }
  void close() noexcept override { opened_.close_all(); }

  Result<DeviceBuffer> allocate(uint64_t size_bytes) override {
    BesideCaptures beside(driver_);
    Current current = TUTTI_TRY(Current::make(driver_, context_));
    CUdeviceptr address = 0;
    TUTTI_CUDA_TRY(driver_, cuMemAlloc, &address, size_bytes);
    auto shared = clear(address, size_bytes);
    if (!shared.ok()) (void)driver_.cuMemFree(address);
    return shared;
  }
  void free(const DeviceBuffer& allocated) noexcept override {
    BesideCaptures beside(driver_);
    auto current = Current::make(driver_, context_);
    (void)driver_.cuMemFree(allocated.address);
  }

  Status launch(const DeviceStream& stream, StreamOrder& order, const Launch& launch) override;
  Status run(const DeviceStream& stream, const Part& part) override;

 private:
  Result<DeviceBuffer> clear(CUdeviceptr address, uint64_t size_bytes) {
    auto shared = TUTTI_TRY(own_.share(reinterpret_cast<const void*>(address), context_));
    if (!shared) return error(Code::kCuda, "the driver gives other processes no handle of this GPU's memory");
    // Not the default one, which waits for others.
    CUstream stream = nullptr;
    TUTTI_CUDA_TRY(driver_, cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
    CUresult result = driver_.cuMemsetD8Async(address, 0, size_bytes, stream);
    if (result == CUDA_SUCCESS) result = driver_.cuStreamSynchronize(stream);
    (void)driver_.cuStreamDestroy(stream);
    if (result != CUDA_SUCCESS) return driver_error(driver_, "cuMemsetD8Async, cuStreamSynchronize", result);
    return *shared;
  }
  Status launch_kernel(CUfunction kernel, unsigned blocks, unsigned threads, CUstream stream, void* args) const {
    void* parameters[] = {args};
    TUTTI_CUDA_TRY(driver_, cuLaunchKernel, kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
    return {};
  }

  const Driver& driver_;
  OwnBuffers& own_;
  const CUcontext context_;
  const LoadedCode& code_;
  const uint32_t* const cancelled_;  // as the device sees it, and
  uint32_t* const late_;
  const unsigned most_blocks_;
  OpenedBuffers opened_;
};

Status OfRank::launch(const DeviceStream& stream, StreamOrder& order, const Launch& launch) {
  CUfunction kernel = TUTTI_TRY(code_.find(launch.kernel));
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  auto& calls = static_cast<Order&>(order);
  CUstream handle = handle_of(stream);
  auto put_kernels = [&]() -> Status {
    TUTTI_TRY(calls.begin(stream, 0));
    TUTTI_TRY(put_store(driver_, handle, launch.reached));
    for (const WordValue& each : launch.waits) TUTTI_TRY(put_wait(driver_, handle, each));
    for (const FusedArgs& each : launch.args) {
      FusedArgs args = each;
      args.cancelled = cancelled_;
      auto blocks = static_cast<unsigned>(std::min<uint64_t>(args.tiles, most_blocks_));
      TUTTI_TRY(launch_kernel(kernel, blocks, kThreads, handle, &args));
    }
    return {};
  };
  Status put = put_kernels();
  Status ended = put_store(driver_, handle, launch.ended);
  TUTTI_TRY(put);
  TUTTI_TRY(ended);
  for (const WordValue& each : launch.stores) TUTTI_TRY(put_store(driver_, handle, each));
  return calls.end(stream, 0);
}

Status OfRank::run(const DeviceStream& stream, const Part& part) {
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  CUstream handle = handle_of(stream);
  auto put_kernel = [&]() -> Status {
    for (const WordValue& each : part.waits) TUTTI_TRY(put_wait(driver_, handle, each));
    if (part.copy.size_bytes > 0) {
      TUTTI_CUDA_TRY(driver_, cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(part.copy.to),
                     reinterpret_cast<CUdeviceptr>(part.copy.from), part.copy.size_bytes, handle);
    }
    if (part.kernel.empty()) return {};
    ProgramArgs args = *part.args;
    args.cancelled = cancelled_;
    args.late = late_;
    return launch_kernel(TUTTI_TRY(code_.find(part.kernel)), args.channels, kProgramThreads, handle, &args);
  };
  Status put = put_kernel();
  Status ended = part.ended.word != nullptr ? put_store(driver_, handle, part.ended) : Status();
  TUTTI_TRY(put);
  TUTTI_TRY(ended);
  for (const uint32_t* each : part.holds) TUTTI_TRY(put_hold(driver_, handle, each));
  for (const WordValue& each : part.last_waits) TUTTI_TRY(put_wait(driver_, handle, each));
  for (const WordValue& each : part.stores) TUTTI_TRY(put_store(driver_, handle, each));
  return {};
}

}  // namespace

Result<std::unique_ptr<RankGpu>> make_rank_gpu(const Driver& driver, OwnBuffers& own, const DeviceModule::Gpu& gpu,
                                               Kernels kernels, const KernelWords& words) {
  constexpr int kBlocksPerProcessor = 2;
  BesideCaptures beside(driver);
  auto* context = static_cast<CUcontext>(gpu.context);
  Current current = TUTTI_TRY(Current::make(driver, context));
  const DeviceCode& code = kernels == Kernels::kFused ? kFusedCode : kProgramCode;
  const LoadedCode* loaded = TUTTI_TRY(load(driver, code, context));
  int processors = 0;
  TUTTI_CUDA_TRY(driver, cuDeviceGetAttribute, &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device);
  SeenWords seen{.cancelled = TUTTI_TRY(seen_by_device(driver, words.cancelled))};
  if (words.late != nullptr) seen.late = TUTTI_TRY(seen_by_device(driver, words.late));
  return std::unique_ptr<RankGpu>(
      std::make_unique<OfRank>(driver, own, context, *loaded, seen, processors * kBlocksPerProcessor));
}

}  // namespace tutti::cuda
