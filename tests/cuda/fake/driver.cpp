// The driver itself: errors that tests ask for, devices and contexts.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "cuda/fake/calls.h"

namespace tutti::fake {
namespace {

constexpr int kDevices = 4;

std::atomic<bool> is_initialized{false};
std::atomic<int> device_error{CUDA_SUCCESS};

// Between contexts of this process: which one reaches the memory of which other one.
std::mutex peers_mutex;
auto& peers = *new std::set<std::pair<CUcontext, CUcontext>>;  // guarded by it; never destroyed, like all here
std::atomic<bool> gives_peer_access{true};

std::atomic<bool> gives_native_atomics{false};

std::atomic<int> device_that_holds{-1};

std::atomic<int> direct_access{kFakeDmaBuf | kFakeOrdered};
std::atomic<bool> waits_for_streams{false};
std::atomic<int> word_delay_ms{0};
std::mutex waiting_mutex;
auto& waiting_changed = *new std::condition_variable;
int waiting_for_streams = 0;  // calls; guarded by it

struct Failure {
  std::string call;
  int after = 0;  // calls that go well first
  CUresult result = CUDA_SUCCESS;
};
std::mutex failure_mutex;
auto& failure = *new Failure;  // guarded by it
std::atomic<bool> has_failed_as_told{false};
auto& calls_made = *new std::map<std::string, int, std::less<>>;  // guarded by it

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
  static auto* all = new CUctx_st[kDevices]{{0}, {1}, {2}, {3}};
  return all[device];
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
  if (waits_for_streams) {
    std::unique_lock lock(waiting_mutex);
    waiting_changed.wait(lock, [] { return waiting_for_streams == 0; });
  }
  if (!is_initialized && std::string_view(call) != "cuInit") return CUDA_ERROR_NOT_INITIALIZED;
  read_failure_of_environment();
  std::lock_guard lock(failure_mutex);
  ++calls_made[call];
  if (failure.call == call && failure.after-- == 0) {
    has_failed_as_told = true;
    return failure.result;
  }
  return static_cast<CUresult>(device_error.load());
}

void await_streams() {
  if (!waits_for_streams) return;
  auto count = [](int more) {
    std::lock_guard lock(waiting_mutex);
    waiting_for_streams += more;
  };
  count(1);
  drain_all();
  count(-1);
  waiting_changed.notify_all();
}

int delay_of_words_ms() { return word_delay_ms; }

void counted(const char* call) {
  std::lock_guard lock(failure_mutex);
  ++calls_made[call];
}

void fail_device(CUresult error) { device_error = error; }

bool has_device_failed() { return device_error != CUDA_SUCCESS; }

bool holds_kernels(CUcontext context) { return context->device == device_that_holds; }

bool may_reach(CUcontext from, int device) { return from->device == device || gives_peer_access; }

bool reaches(CUcontext from, const Allocation& memory) {
  if (memory.kind != Kind::kDevice || memory.context == from) return true;
  std::lock_guard lock(peers_mutex);
  return peers.contains({from, memory.context});
}

}  // namespace tutti::fake

using namespace tutti::fake;

// ---- For tests

// The call fails with `result` after so many that go well.
FOR_TESTS void fake_cuda_fail(const char* call, int after, CUresult result) {
  std::lock_guard lock(failure_mutex);
  failure = {call, after, result};
  if (*call != '\0') has_failed_as_told = false;
}
// Whether the last call that was to fail has done so.
FOR_TESTS int fake_cuda_has_failed() { return has_failed_as_told ? 1 : 0; }
// How often the program has made the call.
FOR_TESTS int fake_cuda_calls(const char* call) {
  std::lock_guard lock(failure_mutex);
  return calls_made[call];
}
// The device has failed: whatever is on streams stops, and every call says so. CUDA_SUCCESS: it works again.
FOR_TESTS void fake_cuda_break_device(CUresult result) { fail_device(result); }
// Kernels that wait for others do not begin on that device; -1: they do on all.
FOR_TESTS void fake_cuda_hold_kernels(int device) { device_that_holds = device; }
// Whether calls that may wait for the device do, and hold all others up.
FOR_TESTS void fake_cuda_wait_for_streams(int wait) { waits_for_streams = wait != 0; }
// Each word that a stream with a priority stores, as the library's have one, takes so long.
FOR_TESTS void fake_cuda_delay_words(int ms) { word_delay_ms = ms; }
// Whether devices reach each other's memory.
FOR_TESTS void fake_cuda_give_peer_access(int give) { gives_peer_access = give != 0; }

// Whether devices are joined by what takes atomic operations.
FOR_TESTS void fake_cuda_give_native_atomics(int give) { gives_native_atomics = give != 0; }
// What devices offer NICs.
FOR_TESTS void fake_cuda_give_direct_access(int offered) { direct_access = offered; }
// What is kept for the calling thread.
FOR_TESTS void fake_cuda_thread_state(int* contexts, int* capture_mode) {
  *contexts = static_cast<int>(contexts_of_thread().size());
  *capture_mode = static_cast<int>(capture_mode_of_thread());
}
// How many calls the program has made, of all kinds.
FOR_TESTS int fake_cuda_all_calls() {
  std::lock_guard lock(failure_mutex);
  int all = 0;
  for (const auto& [call, made] : calls_made) all += made;
  return all;
}

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
    case CUDA_ERROR_NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; break;
    case CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: *name = "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"; break;
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
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 3; break;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: *value = direct_access & kFakeDmaBuf ? 1 : 0; break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
      *value = direct_access & kFakeOrdered ? CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
                                            : CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
      break;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
      *value = direct_access & kFakeFlushes ? CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS : 0;
      break;
    default: return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}
CALL cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
  BEGIN(cuDeviceGetP2PAttribute);
  if (attribute != CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED || from == to) return CUDA_ERROR_INVALID_VALUE;
  *value = gives_native_atomics ? 1 : 0;
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
  tutti::fake::counted("cuCtxPopCurrent");
  auto& stack = contexts_of_thread();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack.back();
  stack.pop_back();
  return CUDA_SUCCESS;
}
CALL cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  BEGIN(cuCtxEnablePeerAccess);
  NEEDS_CONTEXT();
  CUcontext from = current_context();
  if (peer == nullptr || peer == from || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!may_reach(from, peer->device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  std::lock_guard lock(peers_mutex);
  return peers.insert({from, peer}).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

// ---- The table

// Of what this library exports: the newer form of a call, where there is one. FAKE_CUDA_LACKS: a call that it has not.
CALL cuGetProcAddress_v2(const char* symbol, void** address, int, cuuint64_t, CUdriverProcAddressQueryResult* found) {
  static void* self = [] {
    Dl_info info{};
    (void)::dladdr(reinterpret_cast<void*>(&cuInit), &info);
    return ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  const char* lacks = std::getenv("FAKE_CUDA_LACKS");
  bool is_there = lacks == nullptr || std::string_view(lacks) != symbol;
  *address = is_there ? ::dlsym(self, (std::string(symbol) + "_v2").c_str()) : nullptr;
  if (is_there && *address == nullptr) *address = ::dlsym(self, symbol);
  if (found != nullptr) {
    *found = *address == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return *address == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
