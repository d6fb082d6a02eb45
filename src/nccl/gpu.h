// What this layer itself wants of a CUDA driver: the calling thread's device, memory, and what a pointer is. All else
// is libtutti's. Built without CUDA's headers: programs bring the driver.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>

#include "nccl/abi.h"

namespace tutti::nccl {

using Context = void*;  // a CUcontext

class Gpu {
 public:
  // The driver, opened on first use. `load`: also when the program has not loaded it yet. Null where there is none;
  // then `why`, if it is not null, says so.
  static const Gpu* driver(const std::string& library, bool load, std::string* why = nullptr);

  // The calling thread's context and its device; where it has none, those of the first device, which do not become the
  // thread's by that.
  ncclResult_t current(const char* function, Context* context, int* device) const;
  // The context of a device that CUDA's runtime uses.
  ncclResult_t primary(const char* function, int device, Context* context) const;
  ncclResult_t count(const char* function, int* devices) const;

  // Makes a context the calling thread's while it lives. Null: changes nothing.
  class Current {
   public:
    Current(const Gpu* gpu, Context context);
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current();

   private:
    const Gpu* gpu_;
    Context before_ = nullptr;
  };

  // Whether no stream can use the memory.
  bool is_host_alone(const void* pointer) const;
  bool is_device(const void* pointer) const;

  ncclResult_t allocate(const char* function, size_t size, void** pointer) const;
  ncclResult_t free(const char* function, void* pointer) const;
  // Copies from memory of a device what is there when all that was put on the stream is done. Blocks until then.
  ncclResult_t read(const char* function, void* to, const void* from, size_t size, cudaStream_t stream) const;

 private:
  // X(name, version, parameters)
#define TUTTI_NCCL_DRIVER_CALLS(X)                                                          \
  X(cuInit, 2000, (unsigned))                                                               \
  X(cuGetErrorName, 6000, (int, const char**))                                              \
  X(cuDeviceGetCount, 2000, (int*))                                                         \
  X(cuDeviceGet, 2000, (int*, int))                                                         \
  X(cuDevicePrimaryCtxRetain, 7000, (Context*, int))                                        \
  X(cuCtxGetCurrent, 4000, (Context*))                                                      \
  X(cuCtxSetCurrent, 4000, (Context))                                                       \
  X(cuCtxGetDevice, 2000, (int*))                                                           \
  X(cuStreamSynchronize, 2000, (cudaStream_t))                                              \
  X(cuMemAlloc, 3020, (unsigned long long*, size_t))                                        \
  X(cuMemFree, 3020, (unsigned long long))                                                  \
  X(cuMemcpyDtoH, 3020, (void*, unsigned long long, size_t))                                \
  X(cuPointerGetAttributes, 7000, (unsigned, const int*, void**, unsigned long long))

  bool open(const std::string& library, bool load, std::string* why);
  ncclResult_t failed(const char* function, const char* call, int result) const;
  unsigned kind_of(const void* pointer) const;

#define TUTTI_NCCL_DRIVER_CALL(name, version, parameters) int(*name) parameters = nullptr;
  TUTTI_NCCL_DRIVER_CALLS(TUTTI_NCCL_DRIVER_CALL)
#undef TUTTI_NCCL_DRIVER_CALL
};

}  // namespace tutti::nccl
