// Device memory that several processes use: what this one lets others open, and what it has opened of theirs.
#pragma once

#include <cuda.h>

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "cuda/contexts.h"
#include "device/device.h"

namespace tutti::cuda {

// Of this process. Any thread.
class OwnBuffers {
 public:
  explicit OwnBuffers(const Driver& driver) : driver_(driver) {}

  // Without a handle: the memory is not of a kind that has them, or the driver gives none.
  Result<DeviceBuffer> share(const void* pointer, CUcontext context);

 private:
  // Of an allocation.
  struct Shared {
    CUdeviceptr base = 0;
    decltype(DeviceBuffer::handle) handle{};
  };
  // None: the driver gives none.
  Result<std::optional<Shared>> make_handle(CUdeviceptr address, CUcontext context) const;

  const Driver& driver_;
  std::mutex mutex_;
  std::map<uint64_t, Shared> shared_;  // by the allocation's number, which is never used again
};

// Of other processes, and of other GPUs, in one context.
class OpenedBuffers {
 public:
  OpenedBuffers(const Driver& driver, CUcontext context) : driver_(driver), context_(context) {}
  OpenedBuffers(const OpenedBuffers&) = delete;
  OpenedBuffers& operator=(const OpenedBuffers&) = delete;
  ~OpenedBuffers() { close_all(); }

  // The address of the buffer for kernels in the context.
  Result<uint64_t> open(const DeviceBuffer& buffer);
  void close_all() noexcept;

 private:
  struct Opened {
    uint64_t id = 0;
    CUdeviceptr address = 0;
    uint64_t used = 0;  // by which question
  };
  using ByPlace = std::map<std::pair<int64_t, uint64_t>, Opened>;  // process and address
  void close(ByPlace::iterator opened);
  Result<ByPlace::iterator> open_anew(const DeviceBuffer& buffer);
  Result<uint64_t> reach(const DeviceBuffer& buffer);

  const Driver& driver_;
  const CUcontext context_;
  ByPlace opened_;
  std::set<CUcontext> reached_;  // of this process, that have memory on other GPUs
  uint64_t questions_ = 0;
};

}  // namespace tutti::cuda
