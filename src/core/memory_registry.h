// The process's shareable memory: what tutti_mem_alloc() gave out.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace tutti {

// One allocation. `key` is never reused, unlike addresses.
struct MemoryRegion {
  uint64_t key = 0;
  std::span<std::byte> bytes;
  int fd = -1;
  std::shared_ptr<const void> owner;  // keeps bytes and fd; shared with the registry and with links that exported it
};

class MemoryRegistry {
 public:
  Result<void*> allocate(size_t size_bytes);
  // Tells the listeners, then lets go of the memory, which lives until the last of them has. Errors: `pointer` is not
  // the start of an allocation.
  Status free(void* pointer);

  // The allocation that holds all of [data, data + size_bytes), if there is one.
  std::optional<MemoryRegion> find(const std::byte* data, uint64_t size_bytes) const;

  // `forget` is called before a region goes, until remove_listener(). Listeners are told apart by `owner`.
  void add_listener(const void* owner, std::function<void(const MemoryRegion&)> forget);
  void remove_listener(const void* owner);

 private:
  struct Allocation {
    uint64_t key = 0;
    Fd fd;
    Mapping mapping;
  };
  static MemoryRegion region_of(const std::shared_ptr<const Allocation>& allocation);

  mutable std::shared_mutex mutex_;
  std::map<uintptr_t, std::shared_ptr<const Allocation>> allocations_;  // by address
  std::map<const void*, std::function<void(const MemoryRegion&)>> listeners_;
  std::atomic<size_t> count_{0};
  uint64_t next_key_ = 1;
};

}  // namespace tutti
