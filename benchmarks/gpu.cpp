#include <fmt/format.h>

#include <stdexcept>
#include <vector>

#include "device.h"

#ifdef TUTTI_BENCH_CUDA

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

// X(name, version)
#define TUTTI_BENCH_CUDA_CALLS(X) \
  X(cuInit, 2000)                 \
  X(cuGetErrorName, 6000)         \
  X(cuDeviceGetCount, 2000)       \
  X(cuDeviceGet, 2000)            \
  X(cuDeviceGetName, 2000)        \
  X(cuDeviceGetUuid, 11040)       \
  X(cuDevicePrimaryCtxRetain, 7000) \
  X(cuCtxSetCurrent, 4000)        \
  X(cuMemAlloc, 3020)             \
  X(cuMemFree, 3020)              \
  X(cuMemcpyDtoH, 3020)           \
  X(cuMemcpyAsync, 4000)          \
  X(cuStreamCreate, 2000)         \
  X(cuStreamDestroy, 4000)        \
  X(cuStreamSynchronize, 2000)    \
  X(cuEventCreate, 2000)          \
  X(cuEventRecord, 2000)          \
  X(cuEventElapsedTime, 2000)     \
  X(cuEventDestroy, 4000)

namespace tutti::bench {
namespace {

// The driver, opened at run time: a tutti with GPU support runs where there is no driver, too.
struct Driver {
#define TUTTI_BENCH_CUDA_CALL(name, version) PFN_##name##_v##version name = nullptr;
  TUTTI_BENCH_CUDA_CALLS(TUTTI_BENCH_CUDA_CALL)
#undef TUTTI_BENCH_CUDA_CALL

  explicit Driver(const std::string& library) {
    void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* why = ::dlerror();
    if (handle == nullptr) {
      throw std::runtime_error(fmt::format("--device cuda: cannot open the CUDA driver: {}", why ? why : library));
    }
    auto look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(::dlsym(handle, "cuGetProcAddress_v2"));
    CUdriverProcAddressQueryResult found{};
    void* address = nullptr;
#define TUTTI_BENCH_CUDA_CALL(name, version)                                                             \
  if (look_up == nullptr ||                                                                              \
      look_up(#name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) != CUDA_SUCCESS) {    \
    throw std::runtime_error(fmt::format("--device cuda: {} has no " #name "; a driver for CUDA 12 has", library)); \
  }                                                                                                      \
  name = reinterpret_cast<PFN_##name##_v##version>(address);
    TUTTI_BENCH_CUDA_CALLS(TUTTI_BENCH_CUDA_CALL)
#undef TUTTI_BENCH_CUDA_CALL
  }

  void require(const char* call, CUresult result) const {
    if (result == CUDA_SUCCESS) return;
    const char* error = nullptr;
    if (cuGetErrorName(result, &error) != CUDA_SUCCESS) error = "an unknown error";
    const char* remedy = result == CUDA_ERROR_OUT_OF_MEMORY ? "; use a smaller --maxbytes or fewer ranks" : "";
    throw std::runtime_error(fmt::format("{}: {}{}", call, error, remedy));
  }
};

#define TUTTI_BENCH_CUDA_DO(call, ...) driver_.require(#call, driver_.call(__VA_ARGS__))

class Gpu : public Device {
 public:
  Gpu(const std::string& library, const std::string& wish, int local_rank) : driver_(library) {
    TUTTI_BENCH_CUDA_DO(cuInit, 0);
    int count = 0;
    TUTTI_BENCH_CUDA_DO(cuDeviceGetCount, &count);
    if (count == 0) throw std::runtime_error("--device cuda: the CUDA driver sees no GPU");
    size_t colon = wish.find(':');
    index_ = colon == std::string::npos ? local_rank % count : std::stoi(wish.substr(colon + 1));
    if (index_ >= count) {
      throw std::runtime_error(fmt::format("--device {}: this host's GPUs are cuda:0 to cuda:{}", wish, count - 1));
    }
    CUdevice device = 0;
    CUcontext context = nullptr;
    TUTTI_BENCH_CUDA_DO(cuDeviceGet, &device, index_);
    TUTTI_BENCH_CUDA_DO(cuDevicePrimaryCtxRetain, &context, device);
    TUTTI_BENCH_CUDA_DO(cuCtxSetCurrent, context);
    TUTTI_BENCH_CUDA_DO(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
    char model[64] = {};
    TUTTI_BENCH_CUDA_DO(cuDeviceGetName, model, static_cast<int>(sizeof model) - 1, device);
    name_ = fmt::format("cuda:{} {}", index_, model);
    CUuuid uuid = {};
    TUTTI_BENCH_CUDA_DO(cuDeviceGetUuid, &uuid, device);
    for (char byte : uuid.bytes) gpu_ += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  ~Gpu() override {
    for (CUevent event : events_) (void)driver_.cuEventDestroy(event);
    (void)driver_.cuStreamDestroy(stream_);
  }

  std::string name() const override { return name_; }
  std::string gpu() const override { return gpu_; }
  tutti_stream_t stream() const override { return stream_; }

  void* allocate(size_t size_bytes) override {
    CUdeviceptr address = 0;
    TUTTI_BENCH_CUDA_DO(cuMemAlloc, &address, size_bytes);
    return reinterpret_cast<void*>(address);
  }
  void free(void* memory) noexcept override { (void)driver_.cuMemFree(reinterpret_cast<CUdeviceptr>(memory)); }
  void upload(void* to, const void* from, size_t size_bytes) override {
    copy(to, from, size_bytes);  // the stream's calls come behind it
    synchronize();
  }
  void download(void* to, const void* from, size_t size_bytes) override {
    TUTTI_BENCH_CUDA_DO(cuMemcpyDtoH, to, reinterpret_cast<CUdeviceptr>(from), size_bytes);
  }
  void copy(void* to, const void* from, size_t size_bytes) override {
    TUTTI_BENCH_CUDA_DO(cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                        size_bytes, stream_);
  }

  void synchronize() override { TUTTI_BENCH_CUDA_DO(cuStreamSynchronize, stream_); }
  void prepare_marks(size_t count) override {
    while (events_.size() < count) {
      CUevent event = nullptr;
      TUTTI_BENCH_CUDA_DO(cuEventCreate, &event, CU_EVENT_DEFAULT);
      events_.push_back(event);
    }
  }
  void mark(size_t index) override { TUTTI_BENCH_CUDA_DO(cuEventRecord, events_[index], stream_); }
  double seconds_between(size_t first, size_t second) const override {
    float milliseconds = 0;
    TUTTI_BENCH_CUDA_DO(cuEventElapsedTime, &milliseconds, events_[first], events_[second]);
    return milliseconds * 1e-3;
  }

 private:
  Driver driver_;
  int index_ = 0;
  std::string name_;
  std::string gpu_;
  CUstream stream_ = nullptr;
  std::vector<CUevent> events_;
};

}  // namespace

std::unique_ptr<Device> make_gpu(const std::string& driver, const std::string& wish, int local_rank) {
  return std::make_unique<Gpu>(driver, wish, local_rank);
}

}  // namespace tutti::bench

#else

namespace tutti::bench {

std::unique_ptr<Device> make_gpu(const std::string&, const std::string&, int) {
  throw std::runtime_error("--device cuda: this tutti was built without CUDA (cmake -DTUTTI_CUDA=ON)");
}

}  // namespace tutti::bench

#endif
