// The calls of the CUDA driver that tutti makes, as one table: whatever library has them can stand behind it. Each is
// asked for in the version that is written here, so that a newer driver cannot give one with other parameters.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

#include "base/status.h"

// X(name, version)
#define TUTTI_CUDA_CALLS(X)           \
  X(cuInit, 2000)                     \
  X(cuGetErrorName, 6000)             \
  X(cuGetErrorString, 6000)           \
  X(cuDeviceGet, 2000)                \
  X(cuDeviceGetCount, 2000)           \
  X(cuDeviceGetUuid, 11040)           \
  X(cuDeviceGetAttribute, 2000)       \
  X(cuDeviceGetP2PAttribute, 8000)    \
  X(cuDevicePrimaryCtxRetain, 7000)   \
  X(cuCtxGetCurrent, 4000)            \
  X(cuCtxGetDevice, 2000)             \
  X(cuCtxPushCurrent, 4000)           \
  X(cuCtxPopCurrent, 4000)            \
  X(cuCtxEnablePeerAccess, 4000)      \
  X(cuPointerGetAttributes, 7000)     \
  X(cuMemAlloc, 3020)                 \
  X(cuMemFree, 3020)                  \
  X(cuMemsetD8Async, 3020)            \
  X(cuMemHostRegister, 6050)          \
  X(cuMemHostUnregister, 4000)        \
  X(cuMemHostGetDevicePointer, 3020)  \
  X(cuMemGetAddressRange, 3020)       \
  X(cuMemGetHandleForAddressRange, 11070) \
  X(cuIpcGetMemHandle, 4010)          \
  X(cuIpcOpenMemHandle, 11000)        \
  X(cuIpcCloseMemHandle, 4010)        \
  X(cuMemcpyAsync, 4000)              \
  X(cuModuleLoadData, 2000)           \
  X(cuModuleGetFunction, 2000)        \
  X(cuFuncGetAttribute, 2020)         \
  X(cuLaunchKernel, 4000)             \
  X(cuCtxGetStreamPriorityRange, 5050) \
  X(cuStreamCreateWithPriority, 5050) \
  X(cuStreamDestroy, 4000)            \
  X(cuStreamSynchronize, 2000)        \
  X(cuLaunchHostFunc, 10000)          \
  X(cuStreamBatchMemOp, 11070)        \
  X(cuStreamGetCtx, 9020)             \
  X(cuStreamGetCaptureInfo, 11030)    \
  X(cuStreamWaitEvent, 3020)          \
  X(cuEventCreate, 2000)              \
  X(cuEventRecord, 2000)              \
  X(cuEventQuery, 2000)               \
  X(cuEventDestroy, 4000)             \
  X(cuThreadExchangeStreamCaptureMode, 10010) \
  X(cuUserObjectCreate, 11030)        \
  X(cuUserObjectRelease, 11030)       \
  X(cuGraphRetainUserObject, 11030)

namespace tutti::cuda {

struct Driver {
#define TUTTI_CUDA_CALL(name, version) PFN_##name##_v##version name = nullptr;
  TUTTI_CUDA_CALLS(TUTTI_CUDA_CALL)
#undef TUTTI_CUDA_CALL

  // Opens `library`, by name or path, and leaves it open. Errors: it is not there, or lacks a call.
  static Result<Driver> open(const std::string& library);
};

// "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE (invalid argument)", with a remedy where there is one.
Status driver_error(const Driver& driver, const char* call, CUresult result);

}  // namespace tutti::cuda

// Makes a call of the table `driver`; returns its error from this function.
#define TUTTI_CUDA_TRY(driver, call, ...)                                                        \
  do {                                                                                           \
    CUresult tutti_result = (driver).call(__VA_ARGS__);                                          \
    if (tutti_result != CUDA_SUCCESS) return ::tutti::cuda::driver_error(driver, #call, tutti_result); \
  } while (false)
