#include "cuda/direct_access.h"

#include <unistd.h>

#include <array>

namespace tutti::cuda {

Result<DeviceAllocation> DirectAccess::allocation_of(const void* pointer, CUcontext context) const {
  auto address = reinterpret_cast<CUdeviceptr>(pointer);
  unsigned long long id = 0;
  int ordinal = -1;
  std::array attributes = {CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  std::array<void*, 2> values = {&id, &ordinal};
  BesideCaptures beside(driver_);
  Current current = TUTTI_TRY(Current::make(driver_, context));
  TUTTI_CUDA_TRY(driver_, cuPointerGetAttributes, attributes.size(), attributes.data(), values.data(), address);
  CUdevice of_memory = 0, of_stream = 0;
  TUTTI_CUDA_TRY(driver_, cuDeviceGet, &of_memory, ordinal);
  TUTTI_CUDA_TRY(driver_, cuCtxGetDevice, &of_stream);
  if (of_memory != of_stream) return error(Code::kCuda, "memory of another GPU than the stream's");
  CUdeviceptr base = 0;
  size_t size_bytes = 0;
  TUTTI_CUDA_TRY(driver_, cuMemGetAddressRange, &base, &size_bytes, address);
  return DeviceAllocation{
      .bytes = {reinterpret_cast<std::byte*>(base), size_bytes},
      .id = id,
      .context = context,
      .sees_writes = TUTTI_TRY(attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)) >=
                     CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER};
}

uint64_t DirectAccess::allocation_id(const void* pointer) const noexcept {
  unsigned long long id = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
  void* value = &id;
  CUresult result = driver_.cuPointerGetAttributes(1, &attribute, &value, reinterpret_cast<CUdeviceptr>(pointer));
  return result == CUDA_SUCCESS ? id : 0;
}

// Whole pages of the host hold the allocation: the driver gives files of nothing less.
Result<DmaBuf> DirectAccess::open_dma_buf(const DeviceAllocation& allocation) const {
  BesideCaptures beside(driver_);
  Current current = TUTTI_TRY(Current::make(driver_, static_cast<CUcontext>(allocation.context)));
  if (TUTTI_TRY(attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)) == 0) {
    return error(Code::kCuda,
                 "the CUDA driver has no dma-buf here: it needs NVIDIA's open kernel modules and Linux 5.12 or newer");
  }
  if (!allocation.sees_writes) {
    int options = TUTTI_TRY(attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS));
    if ((options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS) == 0) {
      return error(Code::kCuda,
                   "the CUDA driver cannot have a stream wait until the GPU sees what a NIC has written there");
    }
  }
  auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  auto begin = reinterpret_cast<uint64_t>(allocation.bytes.data());
  uint64_t first = begin / page * page;
  uint64_t last = (begin + allocation.bytes.size() + page - 1) / page * page;
  int fd = -1;
  TUTTI_CUDA_TRY(driver_, cuMemGetHandleForAddressRange, &fd, first, last - first, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                 0);
  return DmaBuf{.fd = Fd(fd), .offset = begin - first};
}

Status DirectAccess::copy_now(const StreamCopy& copy, CUcontext context) {
  std::lock_guard lock(copying_);
  auto found = copy_streams_.find(context);
  if (found == copy_streams_.end()) {
    found = copy_streams_.emplace(context, TUTTI_TRY(make_stream_beside_others(driver_, context))).first;
  }
  BesideCaptures beside(driver_);
  Current current = TUTTI_TRY(Current::make(driver_, context));
  TUTTI_CUDA_TRY(driver_, cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(copy.to),
                 reinterpret_cast<CUdeviceptr>(copy.from), copy.size_bytes, handle_of(found->second));
  TUTTI_CUDA_TRY(driver_, cuStreamSynchronize, handle_of(found->second));
  return {};
}

Result<int> DirectAccess::attribute(CUdevice_attribute which) const {
  CUdevice device = 0;
  int value = 0;
  TUTTI_CUDA_TRY(driver_, cuCtxGetDevice, &device);
  TUTTI_CUDA_TRY(driver_, cuDeviceGetAttribute, &value, which, device);
  return value;
}

}  // namespace tutti::cuda
