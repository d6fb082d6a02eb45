#include "cuda/gpu.h"

#include <dlfcn.h>

#include <cstdlib>

namespace tutti::test {

const Gpu& Gpu::driver() {
  static const Gpu opened = [] {
    void* handle = ::dlopen(library(), RTLD_NOW | RTLD_LOCAL);
    TUTTI_CHECK(handle != nullptr);
    auto look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(::dlsym(handle, "cuGetProcAddress_v2"));
    TUTTI_CHECK(look_up != nullptr);
    Gpu gpu;
    CUdriverProcAddressQueryResult found{};
    void* address = nullptr;
#define TUTTI_CUDA_TEST_CALL(name, version)                                                  \
  must(look_up(#name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found));        \
  gpu.name = reinterpret_cast<PFN_##name##_v##version>(address);
    TUTTI_CUDA_TEST_CALLS(TUTTI_CUDA_TEST_CALL)
#undef TUTTI_CUDA_TEST_CALL
    gpu.fake_fail = reinterpret_cast<decltype(gpu.fake_fail)>(::dlsym(handle, "fake_cuda_fail"));
    gpu.fake_has_failed = reinterpret_cast<decltype(gpu.fake_has_failed)>(::dlsym(handle, "fake_cuda_has_failed"));
    gpu.fake_break_device =
        reinterpret_cast<decltype(gpu.fake_break_device)>(::dlsym(handle, "fake_cuda_break_device"));
    gpu.fake_give_handles =
        reinterpret_cast<decltype(gpu.fake_give_handles)>(::dlsym(handle, "fake_cuda_give_handles"));
    gpu.fake_give_peer_access =
        reinterpret_cast<decltype(gpu.fake_give_peer_access)>(::dlsym(handle, "fake_cuda_give_peer_access"));
    gpu.fake_hold_kernels =
        reinterpret_cast<decltype(gpu.fake_hold_kernels)>(::dlsym(handle, "fake_cuda_hold_kernels"));
    gpu.fake_wait_for_streams =
        reinterpret_cast<decltype(gpu.fake_wait_for_streams)>(::dlsym(handle, "fake_cuda_wait_for_streams"));
    gpu.fake_delay_words =
        reinterpret_cast<decltype(gpu.fake_delay_words)>(::dlsym(handle, "fake_cuda_delay_words"));
    gpu.fake_calls = reinterpret_cast<decltype(gpu.fake_calls)>(::dlsym(handle, "fake_cuda_calls"));
    gpu.fake_thread_state =
        reinterpret_cast<decltype(gpu.fake_thread_state)>(::dlsym(handle, "fake_cuda_thread_state"));
    gpu.fake_all_calls = reinterpret_cast<decltype(gpu.fake_all_calls)>(::dlsym(handle, "fake_cuda_all_calls"));
    gpu.fake_give_native_atomics =
        reinterpret_cast<decltype(gpu.fake_give_native_atomics)>(::dlsym(handle, "fake_cuda_give_native_atomics"));
    gpu.fake_give_direct_access =
        reinterpret_cast<decltype(gpu.fake_give_direct_access)>(::dlsym(handle, "fake_cuda_give_direct_access"));
    must(gpu.cuInit(0));
    return gpu;
  }();
  return opened;
}

namespace {
const char* of_environment_or(const char* variable, const char* usual) {
  const char* given = std::getenv(variable);
  return given == nullptr ? usual : given;
}
}  // namespace

const char* Gpu::library() { return of_environment_or("GPU_TEST_DRIVER", TUTTI_TEST_CUDA_DRIVER); }
const char* Gpu::module() { return of_environment_or("GPU_TEST_MODULE", TUTTI_TEST_CUDA_MODULE); }

void Gpu::use(int device) const {
  CUdevice handle = 0;
  CUcontext context = nullptr;
  int count = 0;
  must(cuDeviceGetCount(&count));
  must(cuDeviceGet(&handle, device % count));
  must(cuDevicePrimaryCtxRetain(&context, handle));
  must(cuCtxSetCurrent(context));
}

}  // namespace tutti::test
