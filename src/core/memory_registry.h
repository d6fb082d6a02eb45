// The process's shareable memory: what tutti_mem_alloc() gave out, and what tutti_comm_register() was given.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "core/moved_pages.h"

namespace tutti {

// One allocation or registration. `key` is never reused, unlike addresses.
struct MemoryRegion {
  uint64_t key = 0;
  std::span<std::byte> bytes;
  int fd = -1;
  std::shared_ptr<const void> owner;  // keeps bytes and fd; shared with the registry and with links that exported it
};

// What a call surely does with a buffer: it reads, or stores into, all of [begin, end) in it.
enum class Use : uint8_t { kRead, kWrite };
struct Touched {
  Use use = Use::kRead;
  uint64_t begin = 0;
  uint64_t end = UINT64_MAX;   // cut to the buffer
  uint64_t near = 0;           // what this rank's caches have, or will need
};

// Where a caller's buffer lies in a region. Where its first or last page could not be moved, the region has only a copy
// of what the buffer holds there: `head_bytes` and `tail_bytes` of it.
struct SharedBuffer {
  MemoryRegion region;
  std::byte* data = nullptr;  // in region.bytes: the memory of the buffer, at its own address or at another
  uint64_t size_bytes = 0;
  uint64_t head_bytes = 0;
  uint64_t tail_bytes = 0;

  bool has_edges() const { return head_bytes + tail_bytes > 0; }
  // Whether the caller's buffer, which was found when it lay `at`, still is this memory, as far as one place shows
  // (find()).
  bool is_at(const std::byte* at, const Touched& touched) const;
  // What the caller's buffer holds at its edges, to the region; and back.
  void copy_edges_in(const std::byte* from) const;
  void copy_edges_out(std::byte* to) const;
};

class MemoryRegistry {
 public:
  Result<void*> allocate(size_t size_bytes);
  // Tells the listeners, then lets go of the memory, which lives until the last of them has. Errors: `pointer` is not
  // the start of an allocation.
  Status free(void* pointer);

  // Makes a range of ordinary memory a region, in place; one that lies inside a region already is counted there. The
  // result is the key. No other thread may write to the range meanwhile. Errors: it overlaps a region in part; as
  // move_onto_memfd().
  Result<uint64_t> add(std::span<std::byte> range);
  // Takes one add() back; with the last one the memory is ordinary again, and the listeners are told as by free().
  // Errors: as move_back(); with kSystem it can be tried again, else the region is gone.
  Status remove(uint64_t key);

  // Nothing is found anywhere.
  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }
  // Grows with every change of what find() may find.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }
  // The region that holds all of [data, data + size_bytes), if there is one; none for an empty buffer, or a small one
  // whose edges would have to be copied. What was registered is looked at in one place of what the call touches: if the
  // caller has freed that and got other memory at that address, this is found out (surely where it is stored into, and
  // where it is read unless 64 bytes are equal) and the region no longer found.
  std::optional<SharedBuffer> find(const std::byte* data, uint64_t size_bytes, const Touched& touched = {});

  // `forget` is called before a region goes, until remove_listener(). Listeners are told apart by `owner`.
  void add_listener(const void* owner, std::function<void(const MemoryRegion&)> forget);
  void remove_listener(const void* owner);

 private:
  // Of an allocation, `memory` has the mapping alone, where it lies.
  struct Allocation {
    uint64_t key = 0;
    std::span<std::byte> range;   // at the program's addresses
    MovedPages memory;
    std::byte* data = nullptr;    // of the range, in the mapping
    bool is_registered = false;
    uint64_t times = 1;           // that it was registered
    bool is_disowned = false;
  };
  using Allocations = std::map<uintptr_t, std::shared_ptr<Allocation>>;
  static MemoryRegion region_of(const std::shared_ptr<Allocation>& allocation);
  // With mutex_: the one that holds all of the range.
  std::shared_ptr<Allocation> holder_of(const std::byte* data, uint64_t size_bytes) const;
  std::optional<SharedBuffer> lookup(const std::byte* data, uint64_t size_bytes) const;
  void disown(uint64_t key);
  // The first that overlaps the range.
  Allocations::iterator first_in(std::span<const std::byte> range);
  Status drop_freed(std::span<const std::byte> range);
  void drop_all_in(std::span<const std::byte> range);
  void insert(std::shared_ptr<Allocation> allocation);
  void note_change() { changes_.fetch_add(1, std::memory_order_acq_rel); }
  std::shared_ptr<Allocation> take(Allocations::iterator found);

  std::mutex registering_;             // is held before mutex_, by whoever moves pages
  mutable std::shared_mutex mutex_;    // guards what follows
  Allocations allocations_;            // by address
  std::map<const void*, std::function<void(const MemoryRegion&)>> listeners_;
  std::atomic<size_t> count_{0};
  std::atomic<uint64_t> changes_{0};
  uint64_t next_key_ = 1;
};

}  // namespace tutti
