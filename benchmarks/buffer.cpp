#include "buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "communicator.h"
#include "tutti/tutti.h"

namespace tutti::bench {
namespace {

constexpr std::byte kGuardByte{0xA5};

uint64_t changed(const std::byte* guard, size_t size_bytes) {
  return static_cast<uint64_t>(std::count_if(guard, guard + size_bytes, [](std::byte b) { return b != kGuardByte; }));
}

}  // namespace

Buffer::Buffer(MemoryKind kind, size_t size_bytes, Communicator* comm)
    : kind_(kind), size_bytes_(size_bytes), comm_(comm) {
  size_t total = (size_bytes + 4095) / 4096 * 4096 + 2 * kGuardBytes;
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
}

Buffer::~Buffer() {
  if (handle_ != nullptr) comm_->deregister(handle_);
  if (kind_ == MemoryKind::kTutti) {
    tutti_mem_free(memory_);
  } else {
    std::free(memory_);
  }
}

void Buffer::guard(size_t used_bytes) {
  std::memset(memory_, static_cast<int>(kGuardByte), kGuardBytes);
  std::memset(behind(used_bytes), static_cast<int>(kGuardByte), kGuardBytes);
}

uint64_t Buffer::overwritten(size_t used_bytes) const {
  return changed(memory_, kGuardBytes) + changed(behind(used_bytes), kGuardBytes);
}

}  // namespace tutti::bench
