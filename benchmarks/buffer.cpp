#include "buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "communicator.h"
#include "device.h"
#include "tutti/tutti.h"

namespace tutti::bench {
namespace {

constexpr std::byte kGuardByte{0xA5};

uint64_t changed(const std::byte* guard, size_t size_bytes) {
  return static_cast<uint64_t>(std::count_if(guard, guard + size_bytes, [](std::byte b) { return b != kGuardByte; }));
}

}  // namespace

Buffer::Buffer(MemoryKind kind, size_t size_bytes, Communicator* comm, Device* device)
    : kind_(kind), size_bytes_(size_bytes), comm_(comm), device_(device) {
  size_t total = total_bytes();
  void* memory = nullptr;
  if (kind != MemoryKind::kTutti) {
    memory = std::aligned_alloc(4096, total);
    if (!memory) {
      throw std::runtime_error(fmt::format(
          "cannot allocate {} bytes; free memory, raise the limit (ulimit -v), or use a smaller --maxbytes", total));
    }
  } else if (tutti_mem_alloc(&memory, total) != TUTTI_SUCCESS) {
    throw std::runtime_error(fmt::format("{}, or use a smaller --maxbytes", tutti_last_error(nullptr)));
  }
  memory_ = static_cast<std::byte*>(memory);
  std::memset(memory_, static_cast<int>(kGuardByte), total);
  if (kind == MemoryKind::kRegistered) handle_ = comm->register_memory(memory_, total);
  if (device != nullptr) on_device_ = static_cast<std::byte*>(device->allocate(total));
  upload();
}

Buffer::~Buffer() {
  if (on_device_ != nullptr) device_->free(on_device_);
  if (handle_ != nullptr) comm_->deregister(handle_);
  if (kind_ == MemoryKind::kTutti) {
    tutti_mem_free(memory_);
  } else {
    std::free(memory_);
  }
}

void Buffer::upload() const {
  if (on_device_ != nullptr) device_->upload(on_device_, memory_, total_bytes());
}

void Buffer::download() {
  if (on_device_ != nullptr) device_->download(memory_, on_device_, total_bytes());
}

void Buffer::guard(size_t used_bytes) {
  std::memset(memory_, static_cast<int>(kGuardByte), kGuardBytes);
  std::memset(behind(used_bytes), static_cast<int>(kGuardByte), kGuardBytes);
}

uint64_t Buffer::overwritten(size_t used_bytes) const {
  return changed(memory_, kGuardBytes) + changed(behind(used_bytes), kGuardBytes);
}

}  // namespace tutti::bench
