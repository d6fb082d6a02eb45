// The entry points. Names and parameters are the driver's.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>

#include "cuda/fake/fake.h"

namespace tutti::fake {

namespace {

constexpr int kDevices = 2;

std::atomic<bool> is_initialized{false};
std::atomic<int> device_error{CUDA_SUCCESS};
// Captures in the mode that forbids unsafe calls to all threads.
std::atomic<int> global_captures{0};
std::mutex captures_mutex;
std::vector<CUgraph> open_captures;  // guarded by it

struct Failure {
  std::string call;
  int after = 0;  // calls that go well first
  CUresult result = CUDA_SUCCESS;
};
std::mutex failure_mutex;
Failure failure;  // guarded by it
std::map<std::string, int, std::less<>> calls_made;  // guarded by it

// "cuMemcpyAsync:2:700": the third one fails.
void read_failure_of_environment() {
  static std::once_flag once;
  std::call_once(once, [] {
    const char* given = std::getenv("FAKE_CUDA_FAIL");
    if (given == nullptr) return;
    std::string text(given);
    size_t first = text.find(':'), second = text.find(':', first + 1);
    failure = {text.substr(0, first), std::atoi(text.c_str() + first + 1),
               static_cast<CUresult>(std::atoi(text.c_str() + second + 1))};
  });
}

CUctx_st& primary(int device) {
  static auto* all = new CUctx_st[kDevices]{{0}, {1}};
  return all[device];
}

CUstream legacy_stream(CUcontext context) {
  static std::mutex mutex;
  static auto* streams = new std::map<CUcontext, CUstream>;
  std::lock_guard lock(mutex);
  CUstream& stream = (*streams)[context];
  if (stream == nullptr) stream = make_stream(context);
  return stream;
}

void break_captures() {
  std::lock_guard lock(captures_mutex);
  for (CUgraph graph : open_captures) graph->is_broken = true;
}

// A host function runs on a thread of the driver's own, one at a time.
class HostFunctions {
 public:
  HostFunctions() {
    std::thread([this] { run(); }).detach();
  }
  void call(CUhostFn function, void* argument, std::shared_ptr<std::atomic<bool>> done) {
    {
      std::lock_guard lock(mutex_);
      calls_.push_back({function, argument, std::move(done)});
    }
    changed_.notify_all();
  }

 private:
  struct Call {
    CUhostFn function;
    void* argument;
    std::shared_ptr<std::atomic<bool>> done;
  };
  void run() {
    is_in_host_function() = true;
    for (;;) {
      Call call;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !calls_.empty(); });
        call = std::move(calls_.front());
        calls_.pop_front();
      }
      call.function(call.argument);
      if (call.done) call.done->store(true, std::memory_order_release);
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> calls_;
};
HostFunctions& host_functions() {
  static auto* all = new HostFunctions;
  return *all;
}

}  // namespace

bool& is_in_host_function() {
  static thread_local bool inside = false;
  return inside;
}

CUstreamCaptureMode& capture_mode_of_thread() {
  static thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

std::vector<CUcontext>& contexts_of_thread() {
  static thread_local std::vector<CUcontext> stack;
  return stack;
}

CUcontext current_context() {
  auto& stack = contexts_of_thread();
  return stack.empty() ? nullptr : stack.back();
}

CUresult injected(const char* call) {
  if (is_in_host_function()) {
    std::fprintf(stderr, "%s in a host function\n", call);
    std::abort();
  }
  if (!is_initialized && std::string_view(call) != "cuInit") return CUDA_ERROR_NOT_INITIALIZED;
  read_failure_of_environment();
  std::lock_guard lock(failure_mutex);
  ++calls_made[call];
  if (failure.call == call && failure.after-- == 0) return failure.result;
  return static_cast<CUresult>(device_error.load());
}

void fail_device(CUresult error) { device_error = error; }

CUresult check_unsafe() {
  if (global_captures == 0 || capture_mode_of_thread() == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  break_captures();
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUstream resolve(CUstream handle) {
  bool is_default = handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
  return is_default ? legacy_stream(current_context()) : handle;
}

}  // namespace tutti::fake

using namespace tutti::fake;

#define CALL extern "C" __attribute__((visibility("default"))) CUresult
#define BEGIN(name)                                             \
  do {                                                          \
    if (CUresult wrong = injected(#name); wrong != CUDA_SUCCESS) return wrong; \
  } while (false)
#define NEEDS_CONTEXT() \
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT

// ---- For tests

// The call fails with `result` after so many that go well.
extern "C" __attribute__((visibility("default"))) void fake_cuda_fail(const char* call, int after, CUresult result) {
  std::lock_guard lock(failure_mutex);
  failure = {call, after, result};
}
// How often the program has made the call.
extern "C" __attribute__((visibility("default"))) int fake_cuda_calls(const char* call) {
  std::lock_guard lock(failure_mutex);
  return calls_made[call];
}
// Whether memory that is allocated from here on can be opened by other processes.
extern "C" __attribute__((visibility("default"))) void fake_cuda_give_handles(int give) {
  memory().give_handles(give != 0);
}
// The device has failed: whatever is on streams stops, and every call says so. CUDA_SUCCESS: it works again.
extern "C" __attribute__((visibility("default"))) void fake_cuda_break_device(CUresult result) { fail_device(result); }

// ---- The driver, devices and contexts

CALL cuInit(unsigned) {
  if (CUresult wrong = injected("cuInit"); wrong != CUDA_SUCCESS) return wrong;
  is_initialized = true;
  return CUDA_SUCCESS;
}
CALL cuGetErrorName(CUresult error, const char** name) {
  switch (error) {
    case CUDA_ERROR_OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; break;
    case CUDA_ERROR_ILLEGAL_ADDRESS: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; break;
    case CUDA_ERROR_INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; break;
    default: *name = "CUDA_ERROR_OF_THE_FAKE"; break;
  }
  return CUDA_SUCCESS;
}
CALL cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "as the fake driver was told";
  return CUDA_SUCCESS;
}
CALL cuDeviceGetCount(int* count) {
  BEGIN(cuDeviceGetCount);
  *count = kDevices;
  return CUDA_SUCCESS;
}
CALL cuDeviceGet(CUdevice* device, int ordinal) {
  BEGIN(cuDeviceGet);
  if (ordinal < 0 || ordinal >= kDevices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}
CALL cuDeviceGetName(char* name, int length, CUdevice) {
  BEGIN(cuDeviceGetName);
  std::snprintf(name, static_cast<size_t>(length), "fake");
  return CUDA_SUCCESS;
}
CALL cuDeviceGetUuid_v2(CUuuid* id, CUdevice device) {
  BEGIN(cuDeviceGetUuid);
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "fake gpu %d", device);
  return CUDA_SUCCESS;
}
CALL cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  BEGIN(cuDeviceGetAttribute);
  if (attribute != CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) return CUDA_ERROR_INVALID_VALUE;
  *value = 3;
  return CUDA_SUCCESS;
}
CALL cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  BEGIN(cuDevicePrimaryCtxRetain);
  *context = &primary(device);
  return CUDA_SUCCESS;
}
CALL cuCtxGetCurrent(CUcontext* context) {
  BEGIN(cuCtxGetCurrent);
  *context = current_context();
  return CUDA_SUCCESS;
}
CALL cuCtxGetDevice(CUdevice* device) {
  BEGIN(cuCtxGetDevice);
  NEEDS_CONTEXT();
  *device = current_context()->device;
  return CUDA_SUCCESS;
}
CALL cuCtxSetCurrent(CUcontext context) {
  BEGIN(cuCtxSetCurrent);
  auto& stack = contexts_of_thread();
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
  return CUDA_SUCCESS;
}
CALL cuCtxPushCurrent_v2(CUcontext context) {
  BEGIN(cuCtxPushCurrent);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  contexts_of_thread().push_back(context);
  return CUDA_SUCCESS;
}
CALL cuCtxPopCurrent_v2(CUcontext* context) {
  auto& stack = contexts_of_thread();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}

// ---- Memory

namespace {
CUresult allocate(Kind kind, size_t size_bytes, void** address) {
  NEEDS_CONTEXT();
  if (CUresult wrong = check_unsafe(); wrong != CUDA_SUCCESS) return wrong;
  return memory().allocate(kind, size_bytes, current_context(), address);
}
}  // namespace

CALL cuMemAlloc_v2(CUdeviceptr* address, size_t size_bytes) {
  BEGIN(cuMemAlloc);
  return allocate(Kind::kDevice, size_bytes, reinterpret_cast<void**>(address));
}
CALL cuMemFree_v2(CUdeviceptr address) {
  BEGIN(cuMemFree);
  return memory().free(reinterpret_cast<void*>(address));
}
CALL cuMemAllocManaged(CUdeviceptr* address, size_t size_bytes, unsigned) {
  BEGIN(cuMemAllocManaged);
  return allocate(Kind::kManaged, size_bytes, reinterpret_cast<void**>(address));
}
CALL cuMemHostAlloc(void** address, size_t size_bytes, unsigned) {
  BEGIN(cuMemHostAlloc);
  return allocate(Kind::kPinned, size_bytes, address);
}
CALL cuMemFreeHost(void* address) {
  BEGIN(cuMemFreeHost);
  return memory().free(address);
}
CALL cuMemHostRegister_v2(void* address, size_t size_bytes, unsigned) {
  BEGIN(cuMemHostRegister);
  NEEDS_CONTEXT();
  if (CUresult wrong = check_unsafe(); wrong != CUDA_SUCCESS) return wrong;
  return memory().add_registered(address, size_bytes, current_context());
}
CALL cuMemHostUnregister(void* address) {
  BEGIN(cuMemHostUnregister);
  NEEDS_CONTEXT();
  return memory().remove_registered(address);
}
CALL cuMemHostGetDevicePointer_v2(CUdeviceptr* seen, void* address, unsigned) {
  BEGIN(cuMemHostGetDevicePointer);
  Allocation allocation;
  std::byte* contents = nullptr;
  if (!memory().find(address, &allocation, &contents)) return CUDA_ERROR_INVALID_VALUE;
  *seen = reinterpret_cast<CUdeviceptr>(address);
  return CUDA_SUCCESS;
}
CALL cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr address) {
  BEGIN(cuPointerGetAttributes);
  Allocation allocation;
  std::byte* contents = nullptr;
  bool is_known = memory().find(reinterpret_cast<void*>(address), &allocation, &contents);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: {
        unsigned type = allocation.kind == Kind::kPinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        *static_cast<unsigned*>(values[i]) = is_known ? type : 0;
        break;
      }
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(values[i]) = is_known && allocation.kind == Kind::kManaged;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) = is_known ? allocation.context->device : -2;
        break;
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *static_cast<unsigned*>(values[i]) = is_known && allocation.has_handle ? 1 : 0;
        break;
      case CU_POINTER_ATTRIBUTE_BUFFER_ID: *static_cast<unsigned long long*>(values[i]) = allocation.id; break;
      default: return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

// ---- Memory of other processes

namespace {
struct Handle {
  int64_t pid;
  int fd;
  size_t size_bytes;
};
}  // namespace

CALL cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* size_bytes, CUdeviceptr address) {
  BEGIN(cuMemGetAddressRange);
  NEEDS_CONTEXT();
  Allocation allocation;
  std::byte* contents = nullptr;
  if (!memory().find(reinterpret_cast<void*>(address), &allocation, &contents)) return CUDA_ERROR_NOT_FOUND;
  *base = memory().base_of(reinterpret_cast<void*>(address));
  *size_bytes = allocation.size_bytes;
  return CUDA_SUCCESS;
}
CALL cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  BEGIN(cuIpcGetMemHandle);
  NEEDS_CONTEXT();
  Allocation allocation;
  std::byte* contents = nullptr;
  bool is_known = memory().find(reinterpret_cast<void*>(address), &allocation, &contents);
  if (!is_known || !allocation.has_handle) return CUDA_ERROR_INVALID_VALUE;
  Handle made{.pid = ::getpid(), .fd = allocation.fd, .size_bytes = allocation.size_bytes};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &made, sizeof made);
  return CUDA_SUCCESS;
}
CALL cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned) {
  BEGIN(cuIpcOpenMemHandle);
  NEEDS_CONTEXT();
  Handle given;
  std::memcpy(&given, &handle, sizeof given);
  return memory().open(given.pid, given.fd, given.size_bytes, current_context(), reinterpret_cast<void**>(address));
}
CALL cuIpcCloseMemHandle(CUdeviceptr address) {
  BEGIN(cuIpcCloseMemHandle);
  return memory().close(reinterpret_cast<void*>(address));
}
CALL cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t size_bytes) {
  BEGIN(cuMemcpyHtoD);
  NEEDS_CONTEXT();
  std::memcpy(memory().contents_of(reinterpret_cast<void*>(to)), memory().contents_of(from), size_bytes);
  return CUDA_SUCCESS;
}
CALL cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t size_bytes) {
  BEGIN(cuMemcpyDtoH);
  NEEDS_CONTEXT();
  std::memcpy(memory().contents_of(to), memory().contents_of(reinterpret_cast<void*>(from)), size_bytes);
  return CUDA_SUCCESS;
}

// ---- Streams

namespace {

CUresult put_copy(void* to, const void* from, size_t size_bytes, CUstream handle) {
  NEEDS_CONTEXT();
  CUstream stream = resolve(handle);
  if (stream->context != current_context()) return CUDA_ERROR_INVALID_HANDLE;  // stricter than CUDA
  auto* target = memory().contents_of(to);
  auto* source = memory().contents_of(from);
  return put(stream, [=] {
    if (device_error == CUDA_SUCCESS) std::memcpy(target, source, size_bytes);
    return true;
  });
}

}  // namespace

CALL cuStreamCreate(CUstream* stream, unsigned) {
  BEGIN(cuStreamCreate);
  NEEDS_CONTEXT();
  *stream = make_stream(current_context());
  return CUDA_SUCCESS;
}
CALL cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  BEGIN(cuCtxGetStreamPriorityRange);
  *least = 0;
  *greatest = -1;
  return CUDA_SUCCESS;
}
CALL cuStreamCreateWithPriority(CUstream* stream, unsigned, int priority) {
  BEGIN(cuStreamCreateWithPriority);
  NEEDS_CONTEXT();
  *stream = make_stream(current_context(), priority);
  return CUDA_SUCCESS;
}
CALL cuStreamDestroy_v2(CUstream stream) {
  BEGIN(cuStreamDestroy);
  delete stream;  // what is on it goes on
  return CUDA_SUCCESS;
}
CALL cuStreamSynchronize(CUstream handle) {
  CUresult wrong = injected("cuStreamSynchronize");
  CUstream stream = resolve(handle);
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  drain(stream);  // also where the device has failed, which does nothing of it
  return wrong;
}
CALL cuStreamGetCtx(CUstream stream, CUcontext* context) {
  BEGIN(cuStreamGetCtx);
  *context = resolve(stream)->context;
  return CUDA_SUCCESS;
}
CALL cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size_bytes, CUstream handle) {
  BEGIN(cuMemcpyAsync);
  return put_copy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size_bytes, handle);
}
CALL cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t size_bytes, CUstream handle) {
  BEGIN(cuMemcpyHtoDAsync);
  return put_copy(reinterpret_cast<void*>(to), from, size_bytes, handle);
}
CALL cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t size_bytes, CUstream handle) {
  BEGIN(cuMemcpyDtoHAsync);
  return put_copy(to, reinterpret_cast<void*>(from), size_bytes, handle);
}
CALL cuLaunchHostFunc(CUstream handle, CUhostFn function, void* argument) {
  BEGIN(cuLaunchHostFunc);
  // Each launch of a graph calls it anew.
  auto done = std::make_shared<std::shared_ptr<std::atomic<bool>>>();
  return put(resolve(handle), [=] {
    if (device_error != CUDA_SUCCESS) return true;  // it is not called then
    if (*done == nullptr) {
      *done = std::make_shared<std::atomic<bool>>(false);
      host_functions().call(function, argument, *done);
    }
    if (!(*done)->load(std::memory_order_acquire)) return false;
    done->reset();
    return true;
  });
}
CALL cuStreamWaitValue32_v2(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  BEGIN(cuStreamWaitValue32);
  if (flags != CU_STREAM_WAIT_VALUE_EQ && flags != CU_STREAM_WAIT_VALUE_GEQ) return CUDA_ERROR_NOT_SUPPORTED;
  auto* word = reinterpret_cast<uint32_t*>(memory().contents_of(reinterpret_cast<void*>(address)));
  return put(resolve(handle), [=] {
    if (device_error != CUDA_SUCCESS) return true;
    uint32_t now = std::atomic_ref(*word).load(std::memory_order_acquire);
    return flags == CU_STREAM_WAIT_VALUE_EQ ? now == value : static_cast<int32_t>(now - value) >= 0;
  });
}
CALL cuStreamWriteValue32_v2(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned) {
  BEGIN(cuStreamWriteValue32);
  auto* word = reinterpret_cast<uint32_t*>(memory().contents_of(reinterpret_cast<void*>(address)));
  return put(resolve(handle), [=] {
    if (device_error == CUDA_SUCCESS) std::atomic_ref(*word).store(value, std::memory_order_release);
    return true;
  });
}

// ---- Kernels

CALL cuModuleLoadData(CUmodule* module, const void* image) {
  BEGIN(cuModuleLoadData);
  NEEDS_CONTEXT();
  constexpr uint32_t kFatBinary = 0xba55ed50;
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != kFatBinary) return CUDA_ERROR_INVALID_IMAGE;
  *module = new CUmod_st;
  return CUDA_SUCCESS;
}
CALL cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  BEGIN(cuModuleGetFunction);
  tutti::cuda::FusedBody body = tutti::cuda::fused_body(name);
  if (body == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = new CUfunc_st{body};
  return CUDA_SUCCESS;
}
CALL cuFuncGetAttribute(int* value, CUfunction_attribute, CUfunction function) {
  BEGIN(cuFuncGetAttribute);
  *value = 32;
  function->is_loaded = true;
  return CUDA_SUCCESS;
}
CALL cuLaunchKernel(CUfunction function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                    unsigned, CUstream handle, void** parameters, void**) {
  BEGIN(cuLaunchKernel);
  NEEDS_CONTEXT();
  if (blocks == 0 || threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  if (!function->is_loaded) {
    std::fprintf(stderr, "a kernel is brought to the device by its first launch, which may wait for that\n");
    std::abort();
  }
  auto args = std::make_shared<tutti::cuda::FusedArgs>(*static_cast<tutti::cuda::FusedArgs*>(parameters[0]));
  for (uint64_t& address : args->addresses) {
    if (address != 0) address = reinterpret_cast<uint64_t>(memory().contents_of(reinterpret_cast<void*>(address)));
  }
  return put(resolve(handle), [=] {
    if (device_error != CUDA_SUCCESS) return true;
    // Each with a few of its threads, which do what all would.
    unsigned few = std::min(threads, 4U);
    for (unsigned block = 0; block < blocks; ++block) {
      for (unsigned thread = 0; thread < few; ++thread) function->body(*args, {block, blocks, thread, few});
    }
    return true;
  });
}

// ---- Events

CALL cuEventCreate(CUevent* event, unsigned) {
  BEGIN(cuEventCreate);
  NEEDS_CONTEXT();
  *event = new CUevent_st{current_context()};
  return CUDA_SUCCESS;
}
CALL cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  BEGIN(cuEventElapsedTime);
  for (CUevent event : {start, end}) {
    if (event->recorded == 0) return CUDA_ERROR_INVALID_HANDLE;
    if (!event->happened.has(event->recorded)) return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = static_cast<float>(end->happened_ns - start->happened_ns) * 1e-6f;
  return CUDA_SUCCESS;
}

CALL cuEventDestroy_v2(CUevent) {
  BEGIN(cuEventDestroy);
  return CUDA_SUCCESS;  // a stream may still be about to record it: it stays
}
CALL cuEventRecord(CUevent event, CUstream handle) {
  BEGIN(cuEventRecord);
  CUstream stream = resolve(handle);
  if (stream->context != event->context) return CUDA_ERROR_INVALID_HANDLE;
  event->captured_in = stream->capture;
  event->capture_id = stream->capture_id;
  if (stream->capture != nullptr) return CUDA_SUCCESS;
  uint64_t number = ++event->recorded;
  return put(stream, [=] {
    event->happened_ns = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
    event->happened.add(number);
    return true;
  });
}
CALL cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
  BEGIN(cuStreamWaitEvent);
  CUstream stream = resolve(handle);
  if (event->captured_in != nullptr) {  // the stream joins the capture, whose ops have one order
    if (stream->capture != nullptr && stream->capture != event->captured_in) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    stream->capture = event->captured_in;
    stream->capture_id = event->capture_id;
    std::lock_guard lock(captures_mutex);
    stream->capture->joined.push_back(stream);
    return CUDA_SUCCESS;
  }
  if (stream->capture != nullptr) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  uint64_t number = event->recorded;
  return put(stream, [=] { return device_error != CUDA_SUCCESS || event->happened.has(number); });
}
CALL cuEventQuery(CUevent event) {
  BEGIN(cuEventQuery);
  if (CUresult wrong = check_unsafe(); wrong != CUDA_SUCCESS) return wrong;
  if (event->captured_in != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  return event->happened.has(event->recorded) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

// ---- Graphs

CALL cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  BEGIN(cuThreadExchangeStreamCaptureMode);
  std::swap(*mode, capture_mode_of_thread());
  return CUDA_SUCCESS;
}
CALL cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  BEGIN(cuStreamBeginCapture);
  static std::atomic<cuuint64_t> next{1};
  stream->capture = new CUgraph_st;
  stream->capture_id = next++;
  stream->capture_mode = mode;
  if (mode == CU_STREAM_CAPTURE_MODE_GLOBAL) ++global_captures;
  std::lock_guard lock(captures_mutex);
  open_captures.push_back(stream->capture);
  return CUDA_SUCCESS;
}
CALL cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  BEGIN(cuStreamEndCapture);
  *graph = std::exchange(stream->capture, nullptr);
  if (stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL) --global_captures;
  std::lock_guard lock(captures_mutex);
  std::erase(open_captures, *graph);
  for (CUstream joined : (*graph)->joined) joined->capture = nullptr;
  if (!(*graph)->is_broken) return CUDA_SUCCESS;
  delete std::exchange(*graph, nullptr);
  return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}
CALL cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                               const CUgraphNode**, size_t*) {
  BEGIN(cuStreamGetCaptureInfo);
  CUstream stream = resolve(handle);
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  *status = stream->capture->is_broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  *id = stream->capture_id;
  *graph = stream->capture;
  return CUDA_SUCCESS;
}
CALL cuUserObjectCreate(CUuserObject* object, void* pointer, CUhostFn destroy, unsigned, unsigned) {
  BEGIN(cuUserObjectCreate);
  *object = new CUuserObject_st{pointer, destroy};
  return CUDA_SUCCESS;
}
CALL cuUserObjectRelease(CUuserObject object, unsigned) {
  BEGIN(cuUserObjectRelease);
  delete object;
  return CUDA_SUCCESS;
}
CALL cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned, unsigned flags) {
  BEGIN(cuGraphRetainUserObject);
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) return CUDA_ERROR_NOT_SUPPORTED;
  // Where the driver destroys it nobody may call the driver.
  graph->objects.emplace_back(object, [](CUuserObject last) {
    host_functions().call([](void* pointer) { delete static_cast<CUuserObject>(pointer); }, last, nullptr);
  });
  return CUDA_SUCCESS;
}
CALL cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  BEGIN(cuGraphInstantiateWithFlags);
  *exec = new CUgraphExec_st{graph->ops, graph->objects};
  return CUDA_SUCCESS;
}
CALL cuGraphLaunch(CUgraphExec exec, CUstream handle) {
  BEGIN(cuGraphLaunch);
  for (const Op& op : exec->ops) {
    if (CUresult wrong = put(resolve(handle), op); wrong != CUDA_SUCCESS) return wrong;
  }
  return CUDA_SUCCESS;
}
CALL cuGraphExecDestroy(CUgraphExec exec) {
  BEGIN(cuGraphExecDestroy);
  delete exec;
  return CUDA_SUCCESS;
}
CALL cuGraphDestroy(CUgraph graph) {
  BEGIN(cuGraphDestroy);
  delete graph;
  return CUDA_SUCCESS;
}

// ---- The table

CALL cuGetProcAddress_v2(const char* symbol, void** address, int, cuuint64_t, CUdriverProcAddressQueryResult* found) {
#define ENTRY(name, function) {#name, reinterpret_cast<void*>(&function)}
  static const std::unordered_map<std::string_view, void*> entries = {
      ENTRY(cuInit, cuInit), ENTRY(cuGetErrorName, cuGetErrorName), ENTRY(cuGetErrorString, cuGetErrorString),
      ENTRY(cuDeviceGetCount, cuDeviceGetCount), ENTRY(cuDeviceGet, cuDeviceGet),
      ENTRY(cuDeviceGetName, cuDeviceGetName), ENTRY(cuEventElapsedTime, cuEventElapsedTime),
      ENTRY(cuDeviceGetUuid, cuDeviceGetUuid_v2), ENTRY(cuDeviceGetAttribute, cuDeviceGetAttribute),
      ENTRY(cuCtxGetDevice, cuCtxGetDevice), ENTRY(cuMemGetAddressRange, cuMemGetAddressRange_v2),
      ENTRY(cuIpcGetMemHandle, cuIpcGetMemHandle), ENTRY(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2),
      ENTRY(cuIpcCloseMemHandle, cuIpcCloseMemHandle), ENTRY(cuModuleLoadData, cuModuleLoadData),
      ENTRY(cuModuleGetFunction, cuModuleGetFunction),
      ENTRY(cuFuncGetAttribute, cuFuncGetAttribute), ENTRY(cuLaunchKernel, cuLaunchKernel),
      ENTRY(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain), ENTRY(cuCtxGetCurrent, cuCtxGetCurrent),
      ENTRY(cuCtxSetCurrent, cuCtxSetCurrent), ENTRY(cuCtxPushCurrent, cuCtxPushCurrent_v2),
      ENTRY(cuCtxPopCurrent, cuCtxPopCurrent_v2), ENTRY(cuMemAlloc, cuMemAlloc_v2), ENTRY(cuMemFree, cuMemFree_v2),
      ENTRY(cuMemAllocManaged, cuMemAllocManaged), ENTRY(cuMemHostAlloc, cuMemHostAlloc),
      ENTRY(cuMemFreeHost, cuMemFreeHost), ENTRY(cuMemHostRegister, cuMemHostRegister_v2),
      ENTRY(cuMemHostUnregister, cuMemHostUnregister), ENTRY(cuMemHostGetDevicePointer, cuMemHostGetDevicePointer_v2),
      ENTRY(cuPointerGetAttributes, cuPointerGetAttributes), ENTRY(cuMemcpyHtoD, cuMemcpyHtoD_v2),
      ENTRY(cuMemcpyDtoH, cuMemcpyDtoH_v2), ENTRY(cuStreamCreate, cuStreamCreate),
      ENTRY(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange),
      ENTRY(cuStreamCreateWithPriority, cuStreamCreateWithPriority),
      ENTRY(cuStreamDestroy, cuStreamDestroy_v2), ENTRY(cuStreamSynchronize, cuStreamSynchronize),
      ENTRY(cuStreamGetCtx, cuStreamGetCtx), ENTRY(cuMemcpyAsync, cuMemcpyAsync),
      ENTRY(cuLaunchHostFunc, cuLaunchHostFunc), ENTRY(cuStreamWaitValue32, cuStreamWaitValue32_v2),
      ENTRY(cuStreamWriteValue32, cuStreamWriteValue32_v2), ENTRY(cuEventCreate, cuEventCreate),
      ENTRY(cuEventDestroy, cuEventDestroy_v2), ENTRY(cuEventRecord, cuEventRecord),
      ENTRY(cuStreamWaitEvent, cuStreamWaitEvent), ENTRY(cuEventQuery, cuEventQuery),
      ENTRY(cuThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode),
      ENTRY(cuStreamBeginCapture, cuStreamBeginCapture_v2), ENTRY(cuStreamEndCapture, cuStreamEndCapture),
      ENTRY(cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_v2), ENTRY(cuUserObjectCreate, cuUserObjectCreate),
      ENTRY(cuUserObjectRelease, cuUserObjectRelease), ENTRY(cuGraphRetainUserObject, cuGraphRetainUserObject),
      ENTRY(cuGraphInstantiateWithFlags, cuGraphInstantiateWithFlags), ENTRY(cuGraphLaunch, cuGraphLaunch),
      ENTRY(cuGraphExecDestroy, cuGraphExecDestroy), ENTRY(cuGraphDestroy, cuGraphDestroy)};
#undef ENTRY
  auto entry = entries.find(symbol);
  *address = entry == entries.end() ? nullptr : entry->second;
  if (found != nullptr) {
    *found = *address == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return *address == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
