// What tests do on a GPU, or on the fake one: memory, streams and graphs, by the driver's own calls.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "cuda/driver.h"

#define TUTTI_CUDA_TEST_CALLS(X)        \
  X(cuInit, 2000)                       \
  X(cuDeviceGetCount, 2000)             \
  X(cuDeviceGet, 2000)                  \
  X(cuDevicePrimaryCtxRetain, 7000)     \
  X(cuCtxSetCurrent, 4000)              \
  X(cuCtxGetCurrent, 4000)              \
  X(cuMemAlloc, 3020)                   \
  X(cuMemFree, 3020)                    \
  X(cuMemAllocManaged, 6000)            \
  X(cuMemHostAlloc, 2020)               \
  X(cuMemFreeHost, 2000)                \
  X(cuMemcpyHtoD, 3020)                 \
  X(cuMemcpyDtoH, 3020)                 \
  X(cuMemcpyAsync, 4000)                \
  X(cuLaunchHostFunc, 10000)            \
  X(cuStreamCreate, 2000)               \
  X(cuStreamDestroy, 4000)              \
  X(cuStreamSynchronize, 2000)          \
  X(cuStreamBeginCapture, 10010)        \
  X(cuStreamEndCapture, 10000)          \
  X(cuGraphInstantiateWithFlags, 11040) \
  X(cuGraphLaunch, 10000)               \
  X(cuGraphExecDestroy, 10000)          \
  X(cuGraphDestroy, 10000)

namespace tutti::test {

// The driver that this test runs on; opened, and initialized.
struct Gpu {
#define TUTTI_CUDA_TEST_CALL(name, version) PFN_##name##_v##version name = nullptr;
  TUTTI_CUDA_TEST_CALLS(TUTTI_CUDA_TEST_CALL)
#undef TUTTI_CUDA_TEST_CALL
  void (*fake_fail)(const char* call, int after, CUresult result) = nullptr;  // null on a real GPU
  int (*fake_has_failed)() = nullptr;
  void (*fake_break_device)(CUresult result) = nullptr;
  void (*fake_give_handles)(int give) = nullptr;
  void (*fake_give_peer_access)(int give) = nullptr;
  void (*fake_hold_kernels)(int device) = nullptr;
  void (*fake_wait_for_streams)(int wait) = nullptr;
  void (*fake_delay_words)(int ms) = nullptr;
  void (*fake_give_native_atomics)(int give) = nullptr;
  void (*fake_give_direct_access)(int offered) = nullptr;
  int (*fake_calls)(const char* call) = nullptr;  // so far
  int (*fake_all_calls)() = nullptr;
  void (*fake_thread_state)(int* contexts, int* capture_mode) = nullptr;  // of the calling thread

  static const Gpu& driver();
  // Of its library, for the option cuda_driver: the fake one, or that of the environment (GPU_TEST_DRIVER), for tests
  // that run on a GPU too.
  static const char* library();
  // tutti's module, alike (GPU_TEST_MODULE).
  static const char* module();
  // Makes a device the calling thread's current one. A machine with fewer begins with the first again.
  void use(int device = 0) const;
};

inline void must(CUresult result) { TUTTI_CHECK(result == CUDA_SUCCESS); }

enum class Where { kDevice, kManaged, kPinned, kHost };

// A buffer with the host's view of it: what is written to `host` is there after upload(), and the other way round.
template <typename T>
class OnGpu {
 public:
  OnGpu(size_t count, Where where = Where::kDevice, T value = {}) : host(count, value), where_(where) {
    const Gpu& gpu = Gpu::driver();
    CUdeviceptr address = 0;
    void* pinned = nullptr;
    switch (where) {
      case Where::kDevice: must(gpu.cuMemAlloc(&address, bytes())); break;
      case Where::kManaged: must(gpu.cuMemAllocManaged(&address, bytes(), CU_MEM_ATTACH_GLOBAL)); break;
      case Where::kPinned: must(gpu.cuMemHostAlloc(&pinned, bytes(), 0)); break;
      case Where::kHost: pinned = ::operator new(bytes()); break;
    }
    data_ = address != 0 ? reinterpret_cast<T*>(address) : static_cast<T*>(pinned);
    upload();
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu() {
    const Gpu& gpu = Gpu::driver();
    switch (where_) {
      case Where::kDevice:
      case Where::kManaged: (void)gpu.cuMemFree(reinterpret_cast<CUdeviceptr>(data_)); break;
      case Where::kPinned: (void)gpu.cuMemFreeHost(data_); break;
      case Where::kHost: ::operator delete(data_); break;
    }
  }

  T* data() const { return data_; }
  size_t bytes() const { return host.size() * sizeof(T); }
  void upload() const { copy(data_, host.data()); }
  const std::vector<T>& download() {
    copy(host.data(), data_);
    return host;
  }

  std::vector<T> host;

 private:
  void copy(void* to, const void* from) const {
    const Gpu& gpu = Gpu::driver();
    if (where_ == Where::kHost) {
      std::memcpy(to, from, bytes());
    } else if (to == data_) {
      must(gpu.cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(to), from, bytes()));
    } else {
      must(gpu.cuMemcpyDtoH(to, reinterpret_cast<CUdeviceptr>(from), bytes()));
    }
  }
  Where where_;
  T* data_ = nullptr;
};

class Stream {
 public:
  Stream() { must(Gpu::driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)Gpu::driver().cuStreamDestroy(stream_); }
  CUstream get() const { return stream_; }
  CUresult synchronize() const { return Gpu::driver().cuStreamSynchronize(stream_); }

 private:
  CUstream stream_ = nullptr;
};

}  // namespace tutti::test
