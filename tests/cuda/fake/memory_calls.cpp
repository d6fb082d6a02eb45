// Memory, of this process and of others.
#include <unistd.h>

#include <cstring>

#include "cuda/fake/calls.h"

using namespace tutti::fake;

// Whether memory that is allocated from here on can be opened by other processes.
FOR_TESTS void fake_cuda_give_handles(int give) {
  memory().give_handles(give != 0);
}

namespace {
CUresult allocate(Kind kind, size_t size_bytes, void** address) {
  NEEDS_CONTEXT();
  if (CUresult wrong = check_unsafe(); wrong != CUDA_SUCCESS) return wrong;
  return memory().allocate(kind, size_bytes, current_context(), address);
}
}  // namespace

CALL cuMemAlloc_v2(CUdeviceptr* address, size_t size_bytes) {
  BEGIN(cuMemAlloc);
  await_streams();
  return allocate(Kind::kDevice, size_bytes, reinterpret_cast<void**>(address));
}
CALL cuMemFree_v2(CUdeviceptr address) {
  BEGIN(cuMemFree);
  await_streams();
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
  await_streams();
  return memory().free(address);
}
CALL cuMemHostRegister_v2(void* address, size_t size_bytes, unsigned) {
  BEGIN(cuMemHostRegister);
  await_streams();
  NEEDS_CONTEXT();
  if (CUresult wrong = check_unsafe(); wrong != CUDA_SUCCESS) return wrong;
  return memory().add_registered(address, size_bytes, current_context());
}
CALL cuMemHostUnregister(void* address) {
  BEGIN(cuMemHostUnregister);
  await_streams();
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
  int device;
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
CALL cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, size_t size_bytes, CUmemRangeHandleType type,
                                   unsigned long long flags) {
  BEGIN(cuMemGetHandleForAddressRange);
  NEEDS_CONTEXT();
  constexpr size_t kPage = 4096;
  Allocation allocation;
  std::byte* contents = nullptr;
  bool is_known = memory().find(reinterpret_cast<void*>(address), &allocation, &contents);
  bool is_whole = address % kPage == 0 && size_bytes % kPage == 0;
  if (!is_known || !is_whole || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto base = memory().base_of(reinterpret_cast<void*>(address));
  size_t pages = (allocation.size_bytes + kPage - 1) / kPage;
  if (address != base || size_bytes / kPage > pages) return CUDA_ERROR_INVALID_VALUE;
  int fd = ::dup(allocation.fd);
  if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *static_cast<int*>(handle) = fd;
  return CUDA_SUCCESS;
}
CALL cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  BEGIN(cuIpcGetMemHandle);
  NEEDS_CONTEXT();
  Allocation allocation;
  std::byte* contents = nullptr;
  bool is_known = memory().find(reinterpret_cast<void*>(address), &allocation, &contents);
  if (!is_known || !allocation.has_handle) return CUDA_ERROR_INVALID_VALUE;
  Handle made{.pid = ::getpid(), .fd = allocation.fd, .size_bytes = allocation.size_bytes,
              .device = allocation.context->device};
  std::memset(handle, 0, sizeof *handle);
  std::memcpy(handle, &made, sizeof made);
  return CUDA_SUCCESS;
}
CALL cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned) {
  BEGIN(cuIpcOpenMemHandle);
  await_streams();
  NEEDS_CONTEXT();
  Handle given;
  std::memcpy(&given, &handle, sizeof given);
  if (!may_reach(current_context(), given.device)) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
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
