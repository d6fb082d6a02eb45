#include "nccl/gpu.h"

#include <dlfcn.h>

#include <atomic>

#include "nccl/report.h"

namespace tutti::nccl {
namespace {

// Of cuda.h, whose numbers are part of the driver's interface.
constexpr int kMemoryType = 2;
constexpr unsigned kTypeDevice = 2;
constexpr unsigned long long kLegacyStreams = 1;

unsigned long long address_of(const void* pointer) { return reinterpret_cast<unsigned long long>(pointer); }

}  // namespace

const Gpu* Gpu::driver(const std::string& library, bool load, std::string* why) {
  static std::atomic<const Gpu*> opened{nullptr};
  static auto* mutex = new std::mutex;
  if (const Gpu* gpu = opened.load(std::memory_order_acquire)) return gpu;
  std::lock_guard lock(*mutex);
  if (opened.load(std::memory_order_relaxed) == nullptr) {
    auto* gpu = new Gpu;
    if (!gpu->open(library, load, why)) {
      delete gpu;
      return nullptr;
    }
    opened.store(gpu, std::memory_order_release);
  }
  return opened.load(std::memory_order_relaxed);
}

bool Gpu::open(const std::string& library, bool load, std::string* why) {
  auto because = [&](std::string text) {
    if (why != nullptr) *why = std::move(text);
    return false;
  };
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
  if (handle == nullptr) return because(fmt::format("there is no CUDA driver here: {} cannot be opened", library));
  using LookUp = int (*)(const char*, void**, int, unsigned long long, int*);
  auto look_up = reinterpret_cast<LookUp>(::dlsym(handle, "cuGetProcAddress_v2"));
  if (look_up == nullptr) return because(fmt::format("{} is no driver for CUDA 12 or newer", library));
  void* address = nullptr;
  int found = 0;
#define TUTTI_NCCL_DRIVER_CALL(name, version, parameters)                                       \
  if (look_up(#name, &address, version, kLegacyStreams, &found) != 0 || address == nullptr)       \
    return because(fmt::format("{} has no {}", library, #name));                                 \
  name = reinterpret_cast<decltype(name)>(address);
  TUTTI_NCCL_DRIVER_CALLS(TUTTI_NCCL_DRIVER_CALL)
#undef TUTTI_NCCL_DRIVER_CALL
  int devices = 0;
  if (cuInit(0) != 0 || cuDeviceGetCount(&devices) != 0 || devices == 0) return because("there is no CUDA device here");
  return true;
}

ncclResult_t Gpu::failed(const char* function, const char* call, int result) const {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != 0 || name == nullptr) name = "an unknown error";
  return refuse(ncclUnhandledCudaError, "{}: {}: {}", function, call, name);
}

#define TUTTI_NCCL_DRIVER_TRY(call, ...)                                    \
  do {                                                                      \
    int tutti_nccl_result = call(__VA_ARGS__);                              \
    if (tutti_nccl_result != 0) return failed(function, #call, tutti_nccl_result); \
  } while (false)

ncclResult_t Gpu::current(const char* function, Context* context, int* device) const {
  *device = 0;
  TUTTI_NCCL_DRIVER_TRY(cuCtxGetCurrent, context);
  if (*context == nullptr) return primary(function, 0, context);
  TUTTI_NCCL_DRIVER_TRY(cuCtxGetDevice, device);
  return ncclSuccess;
}

ncclResult_t Gpu::primary(const char* function, int device, Context* context) const {
  int handle = 0;
  TUTTI_NCCL_DRIVER_TRY(cuDeviceGet, &handle, device);
  TUTTI_NCCL_DRIVER_TRY(cuDevicePrimaryCtxRetain, context, handle);  // until the process ends, as CUDA's runtime does
  return ncclSuccess;
}

ncclResult_t Gpu::count(const char* function, int* devices) const {
  TUTTI_NCCL_DRIVER_TRY(cuDeviceGetCount, devices);
  return ncclSuccess;
}

Gpu::Current::Current(const Gpu* gpu, Context context) : gpu_(context == nullptr ? nullptr : gpu) {
  if (gpu_ == nullptr) return;
  (void)gpu_->cuCtxGetCurrent(&before_);
  (void)gpu_->cuCtxSetCurrent(context);
}

Gpu::Current::~Current() {
  if (gpu_ != nullptr) (void)gpu_->cuCtxSetCurrent(before_);
}

// 0 of memory that the driver does not know.
unsigned Gpu::kind_of(const void* pointer) const {
  unsigned type = 0;
  void* values[] = {&type};
  if (cuPointerGetAttributes(1, &kMemoryType, values, address_of(pointer)) != 0) return 0;
  return type;
}

bool Gpu::is_host_alone(const void* pointer) const { return kind_of(pointer) == 0; }
bool Gpu::is_device(const void* pointer) const { return kind_of(pointer) == kTypeDevice; }

ncclResult_t Gpu::allocate(const char* function, size_t size, void** pointer) const {
  Context context = nullptr;
  int device = 0;
  TUTTI_NCCL_TRY(current(function, &context, &device));
  Current scope(this, context);
  unsigned long long address = 0;
  TUTTI_NCCL_DRIVER_TRY(cuMemAlloc, &address, size);
  *pointer = reinterpret_cast<void*>(address);
  return ncclSuccess;
}

ncclResult_t Gpu::free(const char* function, void* pointer) const {
  TUTTI_NCCL_DRIVER_TRY(cuMemFree, address_of(pointer));
  return ncclSuccess;
}

ncclResult_t Gpu::read(const char* function, void* to, const void* from, size_t size, cudaStream_t stream) const {
  TUTTI_NCCL_DRIVER_TRY(cuStreamSynchronize, stream);
  TUTTI_NCCL_DRIVER_TRY(cuMemcpyDtoH, to, address_of(from), size);
  return ncclSuccess;
}

}  // namespace tutti::nccl
