// Memory for one side of a call, with guards that show writes before its start and behind its end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::bench {

class Communicator;

enum class MemoryKind {
  kMalloc,      // ordinary memory
  kTutti,       // tutti_mem_alloc()
  kRegistered,  // ordinary memory after tutti_comm_register()
};

class Buffer {
 public:
  // Throws std::runtime_error when memory is short. Every page is written once. `comm` is for what is registered, and
  // outlives it.
  Buffer(MemoryKind kind, size_t size_bytes, Communicator* comm = nullptr);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  // Page-aligned.
  void* data() const { return memory_ + kGuardBytes; }
  size_t size_bytes() const { return size_bytes_; }

  // Prepares for a call that may write only the first `used_bytes`; the bytes before and behind them are guards until
  // overwritten() counts those that changed.
  void guard(size_t used_bytes);
  uint64_t overwritten(size_t used_bytes) const;

 private:
  static constexpr size_t kGuardBytes = 4096;

  // The guard behind `used_bytes`: at most kGuardBytes.
  std::byte* behind(size_t used_bytes) const { return memory_ + kGuardBytes + used_bytes; }

  MemoryKind kind_;
  size_t size_bytes_;
  std::byte* memory_ = nullptr;
  Communicator* comm_;
  void* handle_ = nullptr;  // of its registration
};

}  // namespace tutti::bench
