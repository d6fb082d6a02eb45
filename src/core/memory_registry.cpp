#include "core/memory_registry.h"

#include <sys/sysinfo.h>

#include <mutex>

namespace tutti {
namespace {

size_t page_size() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

// A memfd takes no memory before it is touched, and then the kernel ends whoever touches too much of it.
Status check_fits(uint64_t size_bytes) {
  struct sysinfo host {};
  if (::sysinfo(&host) != 0) return {};
  uint64_t most = (static_cast<uint64_t>(host.totalram) + host.totalswap) * host.mem_unit;
  if (size_bytes <= most) return {};
  return error(Code::kSystem, "cannot allocate {} bytes: this host has {} of memory and swap; ask for less", size_bytes,
               most);
}

}  // namespace

Result<void*> MemoryRegistry::allocate(size_t size_bytes) {
  size_t whole_pages = (size_bytes + page_size() - 1) / page_size() * page_size();
  if (whole_pages < size_bytes) {
    return error(Code::kInvalidArgument, "cannot allocate {} bytes: the size is larger than any memory", size_bytes);
  }
  TUTTI_TRY(check_fits(whole_pages));
  auto allocation = std::make_shared<Allocation>();
  allocation->fd = TUTTI_TRY(create_memfd("tutti-memory", whole_pages));
  allocation->mapping = TUTTI_TRY(Mapping::create(allocation->fd.get(), whole_pages));
  void* address = allocation->mapping.bytes().data();
  std::unique_lock lock(mutex_);
  allocation->key = next_key_++;
  allocations_.emplace(reinterpret_cast<uintptr_t>(address), std::move(allocation));
  count_.store(allocations_.size(), std::memory_order_release);
  return address;
}

Status MemoryRegistry::free(void* pointer) {
  std::unique_lock lock(mutex_);
  auto found = allocations_.find(reinterpret_cast<uintptr_t>(pointer));
  if (found == allocations_.end()) {
    return error(Code::kInvalidArgument, "tutti_mem_free: {} did not come from tutti_mem_alloc, or was freed already",
                 pointer);
  }
  MemoryRegion region = region_of(found->second);
  for (auto& [owner, forget] : listeners_) forget(region);
  allocations_.erase(found);
  count_.store(allocations_.size(), std::memory_order_release);
  return {};
}

std::optional<MemoryRegion> MemoryRegistry::find(const std::byte* data, uint64_t size_bytes) const {
  if (count_.load(std::memory_order_acquire) == 0) return std::nullopt;
  std::shared_lock lock(mutex_);
  auto after = allocations_.upper_bound(reinterpret_cast<uintptr_t>(data));
  if (after == allocations_.begin()) return std::nullopt;
  const auto& allocation = std::prev(after)->second;
  auto bytes = allocation->mapping.bytes();
  uint64_t offset = data - bytes.data();
  if (offset > bytes.size() || size_bytes > bytes.size() - offset) return std::nullopt;
  return region_of(allocation);
}

MemoryRegion MemoryRegistry::region_of(const std::shared_ptr<const Allocation>& allocation) {
  return {allocation->key, allocation->mapping.bytes(), allocation->fd.get(), allocation};
}

void MemoryRegistry::add_listener(const void* owner, std::function<void(const MemoryRegion&)> forget) {
  std::unique_lock lock(mutex_);
  listeners_[owner] = std::move(forget);
}

void MemoryRegistry::remove_listener(const void* owner) {
  std::unique_lock lock(mutex_);
  listeners_.erase(owner);
}

}  // namespace tutti
