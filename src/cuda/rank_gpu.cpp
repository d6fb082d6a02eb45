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

CUevent event_of(const DeviceEvent& event) { return static_cast<CUevent>(event.handle); }

struct SeenWords {
  CUdeviceptr cancelled = 0;
  CUdeviceptr late = 0;  // 0: none
};

class OfRank : public RankGpu {
 public:
  OfRank(const PinnedMemory& pinned, OwnBuffers& own, CUcontext context, const LoadedCode& code,
         const SeenWords& words, int most_blocks)
      : driver_(pinned.driver()),
        pinned_(pinned),
        own_(own),
        context_(context),
        code_(code),
        cancelled_(reinterpret_cast<const uint32_t*>(words.cancelled)),
        late_(reinterpret_cast<uint32_t*>(words.late)),
        most_blocks_(static_cast<unsigned>(most_blocks)),
        opened_(driver_, context) {}
  ~OfRank() override {
    auto current = Current::make(driver_, context_);
    for (const DeviceEvent& each : {events_.come, events_.done}) {
      if (each.handle != nullptr) (void)driver_.cuEventDestroy(event_of(each));
    }
  }

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
  Result<RankEvents> make_events() override;
  Status come(const DeviceStream& stream, StreamOrder& order, const WordValue& reached) override;
  Status launch_behind(const DeviceStream& stream, StreamOrder& order, const MeetingLaunch& launch) override;
  Status go_on_behind(const DeviceStream& stream, StreamOrder& order, const DeviceEvent& done,
                      const WordValue& gate) override;
  Status run(const DeviceStream& stream, const Part& part) override;

 private:
  Result<DeviceBuffer> clear(CUdeviceptr address, uint64_t size_bytes) {
    auto shared = TUTTI_TRY(own_.share(reinterpret_cast<const void*>(address), context_));
    if (!shared.has_handle) {
      return error(Code::kCuda, "the driver gives other processes no handle of this GPU's memory");
    }
    // Not the default one, which waits for others.
    CUstream stream = nullptr;
    TUTTI_CUDA_TRY(driver_, cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, 0);
    CUresult result = driver_.cuMemsetD8Async(address, 0, size_bytes, stream);
    if (result == CUDA_SUCCESS) result = driver_.cuStreamSynchronize(stream);
    (void)driver_.cuStreamDestroy(stream);
    if (result != CUDA_SUCCESS) return driver_error(driver_, "cuMemsetD8Async, cuStreamSynchronize", result);
    return shared;
  }
  Status put_ended(CUstream stream, const Status& put, WordOps& ops, const WordValue& ended) const;
  Status launch_all(CUfunction kernel, std::span<const FusedArgs> all, CUstream stream) const {
    for (FusedArgs args : all) {
      args.cancelled = cancelled_;
      auto blocks = static_cast<unsigned>(std::min<uint64_t>(args.tiles, most_blocks_));
      TUTTI_TRY(launch_kernel(kernel, blocks, kThreads, stream, &args));
    }
    return {};
  }
  Status launch_kernel(CUfunction kernel, unsigned blocks, unsigned threads, CUstream stream, void* args) const {
    void* parameters[] = {args};
    TUTTI_CUDA_TRY(driver_, cuLaunchKernel, kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
    return {};
  }

  const Driver& driver_;
  const PinnedMemory& pinned_;
  OwnBuffers& own_;
  const CUcontext context_;
  const LoadedCode& code_;
  const uint32_t* const cancelled_;  // as the device sees it, and
  uint32_t* const late_;
  const unsigned most_blocks_;
  RankEvents events_;  // if ranks meet by these
  OpenedBuffers opened_;
};

// What ends before `ended` is stored, also where it could not be put there.
Status OfRank::put_ended(CUstream stream, const Status& put, WordOps& ops, const WordValue& ended) const {
  if (!put.ok()) {
    WordOps alone(pinned_);
    if (ended.word != nullptr) alone.store(ended);
    (void)alone.put(stream);
    return put;
  }
  return ops.put(stream);
}

Status OfRank::launch(const DeviceStream& stream, StreamOrder& order, const Launch& launch) {
  CUfunction kernel = TUTTI_TRY(code_.find(launch.kernel));
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  auto& calls = static_cast<Order&>(order);
  CUstream handle = handle_of(stream);
  WordOps before(pinned_), after(pinned_);
  before.store(launch.reached);
  for (const WordValue& each : launch.waits) before.wait(each);
  after.store(launch.ended);
  for (const WordValue& each : launch.stores) after.store(each);
  auto put_kernels = [&]() -> Status {
    TUTTI_TRY(calls.begin(stream, 0));
    TUTTI_TRY(before.put(handle));
    return launch_all(kernel, launch.args, handle);
  };
  TUTTI_TRY(put_ended(handle, put_kernels(), after, launch.ended));
  return calls.end(stream, 0);
}

Result<RankEvents> OfRank::make_events() {
  BesideCaptures beside(driver_);
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  for (DeviceEvent* each : {&events_.come, &events_.done}) {
    CUevent made = nullptr;
    TUTTI_CUDA_TRY(driver_, cuEventCreate, &made, CU_EVENT_DISABLE_TIMING);
    each->handle = made;
  }
  return events_;
}

Status OfRank::come(const DeviceStream& stream, StreamOrder& order, const WordValue& reached) {
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  TUTTI_TRY(static_cast<Order&>(order).begin(stream, 0));
  WordOps ops(pinned_);
  ops.store(reached);
  TUTTI_TRY(ops.put(handle_of(stream)));
  TUTTI_CUDA_TRY(driver_, cuEventRecord, event_of(events_.come), handle_of(stream));
  return {};
}

Status OfRank::launch_behind(const DeviceStream& stream, StreamOrder& order, const MeetingLaunch& launch) {
  CUfunction kernel = TUTTI_TRY(code_.find(launch.kernel));
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  CUstream handle = handle_of(stream);
  auto put_kernels = [&]() -> Status {
    for (const DeviceEvent& each : launch.come) {
      TUTTI_CUDA_TRY(driver_, cuStreamWaitEvent, handle, event_of(each), CU_EVENT_WAIT_DEFAULT);
    }
    return launch_all(kernel, launch.args, handle);
  };
  WordOps after(pinned_);
  after.store(launch.ended);
  after.store(launch.gate);
  TUTTI_TRY(put_ended(handle, put_kernels(), after, launch.ended));
  TUTTI_CUDA_TRY(driver_, cuEventRecord, event_of(events_.done), handle);
  return static_cast<Order&>(order).end(stream, 0);
}

Status OfRank::go_on_behind(const DeviceStream& stream, StreamOrder& order, const DeviceEvent& done,
                            const WordValue& gate) {
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  TUTTI_CUDA_TRY(driver_, cuStreamWaitEvent, handle_of(stream), event_of(done), CU_EVENT_WAIT_DEFAULT);
  WordOps ops(pinned_);
  ops.store(gate);
  TUTTI_TRY(ops.put(handle_of(stream)));
  return static_cast<Order&>(order).end(stream, 0);
}

Status OfRank::run(const DeviceStream& stream, const Part& part) {
  Current current = TUTTI_TRY(Current::make(driver_, context_));
  CUstream handle = handle_of(stream);
  WordOps before(pinned_), after(pinned_);
  for (const WordValue& each : part.waits) before.wait(each);
  if (part.ended.word != nullptr) after.store(part.ended);
  for (uint32_t* each : part.holds) after.wait_for({each, 0});
  for (const WordValue& each : part.last_waits) after.wait(each);
  for (const WordValue& each : part.stores) after.store(each);
  auto put_kernel = [&]() -> Status {
    TUTTI_TRY(before.put(handle));
    if (part.copy.size_bytes > 0) {
      TUTTI_CUDA_TRY(driver_, cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(part.copy.to),
                     reinterpret_cast<CUdeviceptr>(part.copy.from), part.copy.size_bytes, handle);
    }
    if (part.kernel.empty()) return {};
    if (part.args == nullptr) return launch_all(TUTTI_TRY(code_.find(part.kernel)), part.fused, handle);
    ProgramArgs args = *part.args;
    args.cancelled = cancelled_;
    args.late = late_;
    return launch_kernel(TUTTI_TRY(code_.find(part.kernel)), args.channels, kProgramThreads, handle, &args);
  };
  return put_ended(handle, put_kernel(), after, part.ended);
}

}  // namespace

Result<std::unique_ptr<RankGpu>> make_rank_gpu(const PinnedMemory& pinned, OwnBuffers& own,
                                               const DeviceModule::Gpu& gpu, Kernels kernels,
                                               const KernelWords& words) {
  constexpr int kBlocksPerProcessor = 2;
  const Driver& driver = pinned.driver();
  BesideCaptures beside(driver);
  auto* context = static_cast<CUcontext>(gpu.context);
  Current current = TUTTI_TRY(Current::make(driver, context));
  const DeviceCode& code = kernels == Kernels::kFused ? kFusedCode : kProgramCode;
  const LoadedCode* loaded = TUTTI_TRY(load(driver, code, context));
  int processors = 0;
  TUTTI_CUDA_TRY(driver, cuDeviceGetAttribute, &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu.device);
  SeenWords seen{.cancelled = pinned.seen(words.cancelled)};
  if (words.late != nullptr) seen.late = pinned.seen(words.late);
  return std::unique_ptr<RankGpu>(
      std::make_unique<OfRank>(pinned, own, context, *loaded, seen, processors * kBlocksPerProcessor));
}

}  // namespace tutti::cuda
