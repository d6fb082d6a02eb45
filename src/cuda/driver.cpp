#include "cuda/driver.h"

#include <dlfcn.h>

#include <string_view>

namespace tutti::cuda {
namespace {

Status lacks(const std::string& library, const char* name, int version) {
  return error(Code::kCuda, "{} has no {} of CUDA {}.{}; tutti needs a driver for CUDA 12 or newer", library, name,
               version / 1000, version % 1000 / 10);
}

const char* remedy(std::string_view call, CUresult result) {
  if (call == "cuStreamBatchMemOp" && result == CUDA_ERROR_NOT_SUPPORTED) {
    return "; this driver has no stream memory operations, by which streams wait for calls: use one for Linux of CUDA "
           "12 or newer, or copy to host memory and pass that";
  }
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY: return "; free device memory or pinned memory";
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_ASSERT:
      return "; work of this program has failed on the device: CUDA_LAUNCH_BLOCKING=1 shows where";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
      return "; end this capture and begin another one";
    default: return "";
  }
}

}  // namespace

Result<Driver> Driver::open(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return error(Code::kCuda, "cannot open the CUDA driver: {}", why == nullptr ? library : why);
  }
  auto look_up = reinterpret_cast<PFN_cuGetProcAddress_v12000>(::dlsym(handle, "cuGetProcAddress_v2"));
  if (look_up == nullptr) return lacks(library, "cuGetProcAddress", 12000);
  Driver driver;
  CUdriverProcAddressQueryResult found{};
  void* address = nullptr;
#define TUTTI_CUDA_CALL(name, version)                                                                \
  if (look_up(#name, &address, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &found) != CUDA_SUCCESS || \
      address == nullptr)                                                                             \
    return lacks(library, #name, version);                                                            \
  driver.name = reinterpret_cast<PFN_##name##_v##version>(address);
  TUTTI_CUDA_CALLS(TUTTI_CUDA_CALL)
#undef TUTTI_CUDA_CALL
  return driver;
}

Status driver_error(const Driver& driver, const char* call, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS) name = "an unknown error";
  if (driver.cuGetErrorString(result, &text) != CUDA_SUCCESS) text = "";
  return error(Code::kCuda, "{}: {} ({}){}", call, name, text, remedy(call, result));
}

}  // namespace tutti::cuda
