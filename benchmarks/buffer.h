// Memory for one side of a call, with guards that show writes before its start and behind its end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::bench {

class Communicator;
class Device;

enum class MemoryKind {
  kMalloc,      // ordinary memory
  kTutti,       // tutti_mem_alloc()
  kRegistered,  // ordinary memory after tutti_comm_register()
};

class Buffer {
 public:
  // Throws std::runtime_error when memory is short. Every page is written once. `comm` is for what is registered,
  // `device` for memory of a GPU; both outlive it.
  Buffer(MemoryKind kind, size_t size_bytes, Communicator* comm = nullptr, Device* device = nullptr);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // Where the host writes and reads it; page-aligned.
  void* data() const { return memory_ + kGuardBytes; }
  // Where a call finds it: the same, or on the GPU.
  void* address() const { return (on_device_ == nullptr ? memory_ : on_device_) + kGuardBytes; }
  // What the host has written goes to the GPU, or comes from there with what calls have done; nothing on the host.
  void upload() const;
  void download();
  size_t size_bytes() const { return size_bytes_; }

  // Prepares for a call that may write only the first `used_bytes`; the bytes before and behind them are guards until
  // overwritten() counts those that changed.
  void guard(size_t used_bytes);
  uint64_t overwritten(size_t used_bytes) const;

 private:
  static constexpr size_t kGuardBytes = 4096;

  // Of the memory, guards and all.
  size_t total_bytes() const { return (size_bytes_ + 4095) / 4096 * 4096 + 2 * kGuardBytes; }
  // The guard behind `used_bytes`: at most kGuardBytes.
  std::byte* behind(size_t used_bytes) const { return memory_ + kGuardBytes + used_bytes; }

  MemoryKind kind_;
  size_t size_bytes_;
  std::byte* memory_ = nullptr;
  std::byte* on_device_ = nullptr;
  Communicator* comm_;
  Device* device_;
  void* handle_ = nullptr;  // of its registration
};

}  // namespace tutti::bench
