// StagingPool: memory that peers can reach, for calls that stand for several. Shared by all communicators of the
// process; what is not used stays for the next call, since peers have it mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "core/memory_registry.h"

namespace tutti {

class StagingPool {
 public:
  // Gives its memory back when it ends.
  class Memory {
   public:
    Memory(StagingPool& pool, void* data, uint64_t size_bytes) : pool_(&pool), data_(data), size_bytes_(size_bytes) {}
    Memory(Memory&& other) noexcept
        : pool_(other.pool_),
          data_(std::exchange(other.data_, nullptr)),
          size_bytes_(other.size_bytes_),
          is_abandoned_(other.is_abandoned_) {}
    Memory& operator=(Memory&&) = delete;
    ~Memory();
    std::byte* data() const { return static_cast<std::byte*>(data_); }
    // Memory that a peer may still store to serves nobody else once this ends.
    void abandon() { is_abandoned_ = true; }

   private:
    StagingPool* pool_;
    void* data_;
    uint64_t size_bytes_;
    bool is_abandoned_ = false;
  };

  // What is done with memory before it is first taken, and before it is given back to the system; `end` says whether it
  // may be.
  struct Pinning {
    std::function<Status(std::span<std::byte>)> begin;
    std::function<bool(std::byte*)> end;
  };
  // With `pinning` nothing is given back before the pool ends: that may wait for devices, which wait for their callers.
  explicit StagingPool(MemoryRegistry& registry, Pinning pinning = {})
      : registry_(registry), pinning_(std::move(pinning)) {}
  ~StagingPool();

  // Any thread. Errors: memory is short.
  Result<Memory> take(uint64_t size_bytes);
  uint64_t idle_bytes() const;

 private:
  struct Idle {
    void* data;
    uint64_t size_bytes;
  };

  Result<void*> allocate(uint64_t size_bytes);
  void free(void* data) noexcept;
  void put_back(void* data, uint64_t size_bytes) noexcept;
  Idle remove(size_t position);

  MemoryRegistry& registry_;
  const Pinning pinning_;
  mutable std::mutex mutex_;
  std::vector<Idle> idle_;      // the longest unused first
  uint64_t idle_bytes_ = 0;
  size_t made_ = 0;             // so far
};

}  // namespace tutti
