// Device memory for devices that reach it by themselves: NICs. Any thread.
#pragma once

#include <map>
#include <mutex>

#include "cuda/contexts.h"
#include "device/device.h"

namespace tutti::cuda {

// What DeviceModule promises of it.
class DirectAccess {
 public:
  explicit DirectAccess(const Driver& driver) : driver_(driver) {}

  Result<DeviceAllocation> allocation_of(const void* pointer, CUcontext context) const;
  uint64_t allocation_id(const void* pointer) const noexcept;
  Result<DmaBuf> open_dma_buf(const DeviceAllocation& allocation) const;
  Status copy_now(const StreamCopy& copy, CUcontext context);

 private:
  // Of the current context's device.
  Result<int> attribute(CUdevice_attribute which) const;

  const Driver& driver_;
  std::mutex copying_;
  std::map<CUcontext, Stream> copy_streams_;  // guarded by it; there as long as the process
};

}  // namespace tutti::cuda
