// Memory of a GPU, as transports know it: at its addresses the host finds nothing, but devices that read and write
// memory by themselves may reach it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/fd.h"
#include "base/status.h"

namespace tutti {

// Any thread may call these.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  virtual std::span<std::byte> bytes() const = 0;
  bool holds(const std::byte* data) const {
    auto first = reinterpret_cast<uintptr_t>(bytes().data());
    return reinterpret_cast<uintptr_t>(data) - first < bytes().size();
  }
  // Of all of it; as long as this lives.
  virtual const DmaBuf& dma_buf() const = 0;
  // Through the host; on return it has been done. Block for as long as the copy takes. All of `from`, and `to`, lie in
  // this memory; where the other end is, the host or the device may reach.
  virtual Status read(std::span<std::byte> to, const std::byte* from) const = 0;
  virtual Status write(std::byte* to, std::span<const std::byte> from) const = 0;
};

}  // namespace tutti
