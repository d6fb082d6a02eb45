// The module: what DeviceModule promises, by calls of the CUDA driver.
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <utility>

#include "cuda/direct_access.h"
#include "cuda/order.h"
#include "cuda/pinned_words.h"
#include "cuda/shared_buffers.h"
#include "cuda/rank_gpu.h"

namespace tutti::cuda {
namespace {

using Stream = DeviceModule::Stream;

class Module : public DeviceModule {
 public:
  explicit Module(const Driver& driver)
      : driver_(driver), pinned_(driver_), own_buffers_(driver_), direct_access_(driver_) {}

  Result<BufferPlace> place_of(const void* pointer) override;
  Result<Stream> stream_of(tutti_stream_t handle, int device) override;

  Status pin(std::span<std::byte> memory, void* context) override {
    BesideCaptures beside(driver_);
    Current current = TUTTI_TRY(Current::make(driver_, static_cast<CUcontext>(context)));
    TUTTI_CUDA_TRY(driver_, cuMemHostRegister, memory.data(), memory.size(),
                   CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
    Status known = pinned_.add(memory);
    if (!known.ok()) (void)driver_.cuMemHostUnregister(memory.data());
    return known;
  }
  bool unpin(std::byte* memory, void* context) noexcept override {
    BesideCaptures beside(driver_);
    auto current = Current::make(driver_, static_cast<CUcontext>(context));
    pinned_.remove(memory);
    return driver_.cuMemHostUnregister(memory) == CUDA_SUCCESS;
  }

  std::unique_ptr<StreamOrder> make_order() override { return std::make_unique<Order>(driver_); }

  Result<Stream> make_stream(void* context) override {
    return make_stream_beside_others(driver_, static_cast<CUcontext>(context));
  }
  void drop_stream(const Stream& stream) noexcept override {
    auto current = Current::make(driver_, context_of(stream));
    (void)driver_.cuStreamDestroy(handle_of(stream));
  }

  Result<std::optional<Gpu>> current_gpu() override;
  Result<std::unique_ptr<RankGpu>> use(const Gpu& gpu, Kernels kernels, const KernelWords& words) override {
    return make_rank_gpu(pinned_, own_buffers_, gpu, kernels, words);
  }
  Result<bool> has_native_atomics(const Gpu& gpu, std::span<const GpuId> others) override;
  Result<DeviceBuffer> share_buffer(const void* pointer, const Gpu& gpu) override {
    return own_buffers_.share(pointer, static_cast<CUcontext>(gpu.context));
  }
  Result<DeviceAllocation> allocation_of(const void* pointer, void* context) override {
    return direct_access_.allocation_of(pointer, static_cast<CUcontext>(context));
  }
  uint64_t allocation_id(const void* pointer) noexcept override { return direct_access_.allocation_id(pointer); }
  Result<DmaBuf> open_dma_buf(const DeviceAllocation& allocation) override {
    return direct_access_.open_dma_buf(allocation);
  }
  Status copy_now(const StreamCopy& copy, void* context) override {
    return direct_access_.copy_now(copy, static_cast<CUcontext>(context));
  }
  Status put_gate(const Stream& stream, StreamOrder& order, const Gate& gate) override;

  Result<bool> are_captured(std::span<const Stream> streams) override {
    return TUTTI_TRY(capture_of(streams)).id != 0;
  }
  Status enqueue(const Batch& batch, const StreamWork& work, void (*graph_ends)(void* argument)) override;

 private:
  struct Capture {
    cuuint64_t id = 0;  // 0: none
    CUgraph graph = nullptr;
    friend bool operator==(const Capture&, const Capture&) = default;
  };
  Result<CUcontext> primary_context(int device);
  Status need_word_operations(CUcontext context);
  Result<Capture> capture_of(const Stream& stream) const;
  Result<Capture> capture_of(std::span<const Stream> streams) const;
  Status copy(CUstream stream, std::span<const StreamCopy> copies) const;
  Status have_graph_say_its_end(const Capture& capture, void (*graph_ends)(void*), void* argument) const;

  const Driver driver_;
  PinnedMemory pinned_;
  OwnBuffers own_buffers_;
  DirectAccess direct_access_;
  std::mutex mutex_;
  // Guarded by it:
  std::map<int, CUcontext> primary_contexts_;  // of devices that were asked for
  std::set<CUcontext> have_word_operations_;
  std::span<std::byte> tried_word_;            // pinned
};

Result<BufferPlace> Module::place_of(const void* pointer) {
  unsigned kind = 0, is_managed = 0;
  int device = -1;
  std::array attributes = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                           CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 3> values = {&kind, &is_managed, &device};
  CUresult result = driver_.cuPointerGetAttributes(attributes.size(), attributes.data(), values.data(),
                                                   reinterpret_cast<CUdeviceptr>(pointer));
  switch (result) {
    case CUDA_SUCCESS: break;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_NOT_INITIALIZED:  // the program has made no use of the driver yet, or
    case CUDA_ERROR_DEINITIALIZED:    // it ends, or
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_NO_DEVICE:        // there is nothing to use
    case CUDA_ERROR_STUB_LIBRARY: return BufferPlace{};
    default: return driver_error(driver_, "cuPointerGetAttributes", result);
  }
  if (is_managed != 0) return BufferPlace{MemoryKind::kManaged, device};
  if (kind == CU_MEMORYTYPE_HOST) return BufferPlace{MemoryKind::kPinned, -1};
  if (kind == CU_MEMORYTYPE_DEVICE) return BufferPlace{MemoryKind::kDevice, device};
  return BufferPlace{};
}

Result<Stream> Module::stream_of(tutti_stream_t handle, int device) {
  auto stream = static_cast<CUstream>(handle);
  CUcontext context = nullptr;
  if (is_default(stream)) {
    TUTTI_CUDA_TRY(driver_, cuCtxGetCurrent, &context);
  } else {
    TUTTI_CUDA_TRY(driver_, cuStreamGetCtx, stream, &context);
  }
  if (context == nullptr && device < 0) {
    return error(Code::kInvalidUsage,
                 "a default stream was passed, but the calling thread has no current device: call cudaSetDevice() "
                 "before, or pass another stream");
  }
  if (context == nullptr) context = TUTTI_TRY(primary_context(device));
  TUTTI_TRY(need_word_operations(context));
  return Stream{handle, context};
}

// No attribute tells whether streams can wait for words of 32 bits, so one stores such a word, before anything is on
// the program's streams.
Status Module::need_word_operations(CUcontext context) {
  constexpr size_t kPageBytes = 4096;
  std::lock_guard lock(mutex_);
  if (have_word_operations_.contains(context)) return {};
  if (tried_word_.empty()) {
    auto* page = static_cast<std::byte*>(::operator new(kPageBytes, std::align_val_t(kPageBytes)));  // for good
    TUTTI_TRY(pin({page, kPageBytes}, context));
    tried_word_ = {page, kPageBytes};
  }
  Stream stream = TUTTI_TRY(make_stream(context));
  WordOps store(pinned_);
  store.store({reinterpret_cast<uint32_t*>(tried_word_.data()), 1});
  Status stored = [&]() -> Status {
    Current current = TUTTI_TRY(Current::make(driver_, context));
    return store.put(handle_of(stream));
  }();
  drop_stream(stream);
  if (stored.ok()) have_word_operations_.insert(context);
  return stored;
}

// The program has memory there, so it has the context, too. It is retained once, for as long as the process lives, as
// are the streams and the code that are there.
Result<CUcontext> Module::primary_context(int device) {
  std::lock_guard lock(mutex_);
  auto known = primary_contexts_.find(device);
  if (known != primary_contexts_.end()) return known->second;
  CUdevice its = 0;
  CUcontext context = nullptr;
  TUTTI_CUDA_TRY(driver_, cuDeviceGet, &its, device);
  TUTTI_CUDA_TRY(driver_, cuDevicePrimaryCtxRetain, &context, its);
  primary_contexts_[device] = context;
  return context;
}

Result<Module::Capture> Module::capture_of(const Stream& stream) const {
  Current current = TUTTI_TRY(Current::make(driver_, context_of(stream)));
  CUstreamCaptureStatus status{};
  Capture capture;
  TUTTI_CUDA_TRY(driver_, cuStreamGetCaptureInfo, handle_of(stream), &status, &capture.id, &capture.graph, nullptr,
                 nullptr);
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return Capture{};
  if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) return capture;
  return error(Code::kInvalidUsage, "the capture of this stream is broken; end it, and begin another one");
}

Result<Module::Capture> Module::capture_of(std::span<const Stream> streams) const {
  Capture first = TUTTI_TRY(capture_of(streams.front()));
  for (const Stream& stream : streams.subspan(1)) {
    if (TUTTI_TRY(capture_of(stream)) == first) continue;
    return error(Code::kInvalidUsage,
                 "the streams of this group are not in one capture; put all of them into it, or none");
  }
  return first;
}

Status Module::copy(CUstream stream, std::span<const StreamCopy> copies) const {
  for (const StreamCopy& each : copies) {
    TUTTI_CUDA_TRY(driver_, cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(each.to),
                   reinterpret_cast<CUdeviceptr>(each.from), each.size_bytes, stream);
  }
  return {};
}

Result<std::optional<DeviceModule::Gpu>> Module::current_gpu() {
  CUcontext context = nullptr;
  CUresult result = driver_.cuCtxGetCurrent(&context);
  if (result != CUDA_SUCCESS || context == nullptr) return std::optional<Gpu>();  // the program has no device yet
  CUdevice device = 0;
  CUuuid id{};
  TUTTI_CUDA_TRY(driver_, cuCtxGetDevice, &device);
  TUTTI_CUDA_TRY(driver_, cuDeviceGetUuid, &id, device);
  Gpu gpu{.device = device, .context = context};
  std::memcpy(gpu.id.data(), id.bytes, gpu.id.size());
  return std::optional(gpu);
}

Result<bool> Module::has_native_atomics(const Gpu& gpu, std::span<const GpuId> others) {
  int devices = 0;
  TUTTI_CUDA_TRY(driver_, cuDeviceGetCount, &devices);
  size_t found = 0;
  for (int ordinal = 0; ordinal < devices; ++ordinal) {
    CUdevice device = 0;
    CUuuid uuid{};
    TUTTI_CUDA_TRY(driver_, cuDeviceGet, &device, ordinal);
    TUTTI_CUDA_TRY(driver_, cuDeviceGetUuid, &uuid, device);
    GpuId id{};
    std::memcpy(id.data(), uuid.bytes, id.size());
    if (std::find(others.begin(), others.end(), id) == others.end()) continue;
    int is_native = 0;
    TUTTI_CUDA_TRY(driver_, cuDeviceGetP2PAttribute, &is_native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED,
                   gpu.device, device);
    if (is_native == 0) return false;
    ++found;
  }
  return found == others.size();
}

Status Module::put_gate(const Stream& stream, StreamOrder& order, const Gate& gate) {
  Current current = TUTTI_TRY(Current::make(driver_, context_of(stream)));
  auto& calls = static_cast<Order&>(order);
  TUTTI_TRY(calls.begin(stream, 0));
  WordOps ops(pinned_);
  ops.store(gate.reached);
  ops.wait(gate.waits);
  ops.store(gate.passed);
  TUTTI_TRY(ops.put(handle_of(stream)));
  return calls.end(stream, 0);
}

// Who holds `argument` until then lets go of it also where there never was a graph with it.
Status Module::have_graph_say_its_end(const Capture& capture, void (*graph_ends)(void*), void* argument) const {
  CUuserObject object = nullptr;
  CUresult made = driver_.cuUserObjectCreate(&object, argument, graph_ends, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
  if (made != CUDA_SUCCESS) {
    graph_ends(argument);
    return driver_error(driver_, "cuUserObjectCreate", made);
  }
  CUresult kept = driver_.cuGraphRetainUserObject(capture.graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (kept == CUDA_SUCCESS) return {};
  (void)driver_.cuUserObjectRelease(object, 1);  // which calls `graph_ends`
  return driver_error(driver_, "cuGraphRetainUserObject", kept);
}

Status Module::enqueue(const Batch& batch, const StreamWork& work, void (*graph_ends)(void* argument)) {
  const Stream& first = batch.streams.front();
  CUstream stream = handle_of(first);
  auto found = capture_of(batch.streams);
  if (!found.ok()) {
    graph_ends(work.argument);
    return std::move(found).status();
  }
  const Capture& capture = *found;
  Current current = TUTTI_TRY(Current::make(driver_, context_of(first)));
  WordOps begin(pinned_), end(pinned_);
  bool has_gate = work.gate != nullptr;
  if (work.begins_at.word != nullptr) begin.wait(work.begins_at);
  if (has_gate) end.store({work.gate, 0});
  end.store({work.passed, 1});
  if (work.ends_with.word != nullptr) end.store(work.ends_with);

  if (capture.id != 0) TUTTI_TRY(have_graph_say_its_end(capture, graph_ends, work.argument));
  auto joins = [&]() -> Order& {
    return static_cast<Order&>(batch.to_end.empty() ? *batch.to_begin.front() : *batch.to_end.front());
  };
  for (StreamOrder* each : batch.to_end) TUTTI_TRY(static_cast<Order*>(each)->begin(first, capture.id));
  for (StreamOrder* each : batch.to_begin) TUTTI_TRY(static_cast<Order*>(each)->begin(first, capture.id));
  for (const Stream& other : batch.streams.subspan(1)) TUTTI_TRY(joins().join(other, first));
  TUTTI_TRY(begin.put(stream));
  for (const StreamWork::Piece& piece : work.before) {
    TUTTI_TRY(copy(stream, piece));
    TUTTI_CUDA_TRY(driver_, cuLaunchHostFunc, stream, work.reached, work.argument);
  }
  for (StreamOrder* each : batch.to_begin) TUTTI_TRY(static_cast<Order*>(each)->end(first, capture.id));
  uint32_t number = 0;
  for (const StreamWork::Piece& piece : work.after) {
    WordOps gate(pinned_);
    WordValue opened{work.gate, ++number};
    if (has_gate) work.flushes ? gate.wait_and_flush(opened) : gate.wait(opened);
    TUTTI_TRY(gate.put(stream));
    TUTTI_TRY(copy(stream, piece));
  }
  TUTTI_TRY(end.put(stream));
  for (const Stream& other : batch.streams.subspan(1)) TUTTI_TRY(joins().join(first, other));
  for (StreamOrder* each : batch.to_end) TUTTI_TRY(static_cast<Order*>(each)->end(first, capture.id));
  return {};
}

DeviceModule* open_module(int version, const char* driver_library, Status* why) {
  static std::mutex mutex;
  static Module* module = nullptr;  // never destroyed: the driver may hold callbacks into it
  std::lock_guard lock(mutex);
  if (version != TUTTI_VERSION) {
    *why = error(Code::kCuda, "libtutti_cuda.so is of tutti {}, libtutti.so of {}; install both from one build",
                 TUTTI_VERSION, version);
    return nullptr;
  }
  if (module != nullptr) return module;
  auto driver = Driver::open(driver_library);
  if (!driver.ok()) {
    *why = std::move(driver).status();
    return nullptr;
  }
  module = new Module(*driver);
  return module;
}

}  // namespace
}  // namespace tutti::cuda

extern "C" __attribute__((visibility("default")))
tutti::DeviceModule* tutti_open_module(int version, const char* driver, tutti::Status* why) {
  return tutti::cuda::open_module(version, driver, why);
}
