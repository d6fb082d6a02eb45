#include "core/memory_registry.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/log.h"

namespace tutti {
namespace {

uintptr_t address_of(const std::byte* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

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

// Copying the edges of less takes about as long as the call.
constexpr uint64_t kLeastWithEdges = 32 * 1024;

enum class Look : uint8_t { kSame, kOther, kNowhere };

// Whether what is stored at one of the two addresses is seen at the other.
Look look_at(const SharedBuffer& buffer, const std::byte* data, const Touched& touched) {
  constexpr uint64_t kLine = 64;
  uint64_t begin = std::max(touched.begin, buffer.head_bytes);
  uint64_t end = std::min(touched.end, buffer.size_bytes - buffer.tail_bytes);
  if (begin >= end) return Look::kNowhere;
  uint64_t compared = touched.use == Use::kWrite ? 1 : std::min(kLine, end - begin);
  uint64_t at = std::clamp(touched.near, begin, end - compared);
  if (touched.use == Use::kRead) {
    return std::memcmp(data + at, buffer.data + at, compared) == 0 ? Look::kSame : Look::kOther;
  }
  auto* byte = const_cast<volatile std::byte*>(data + at);
  std::byte before = *byte;
  *byte = ~before;
  bool is_seen = *const_cast<const volatile std::byte*>(buffer.data + at) == ~before;
  *byte = before;
  return is_seen ? Look::kSame : Look::kOther;
}

}  // namespace

bool SharedBuffer::is_at(const std::byte* at, const Touched& touched) const {
  return at == data || look_at(*this, at, touched) == Look::kSame;
}

void SharedBuffer::copy_edges_in(const std::byte* from) const {
  if (head_bytes > 0) std::memcpy(data, from, head_bytes);
  if (tail_bytes > 0) std::memcpy(data + size_bytes - tail_bytes, from + size_bytes - tail_bytes, tail_bytes);
}

void SharedBuffer::copy_edges_out(std::byte* to) const {
  if (head_bytes > 0) std::memcpy(to, data, head_bytes);
  if (tail_bytes > 0) std::memcpy(to + size_bytes - tail_bytes, data + size_bytes - tail_bytes, tail_bytes);
}

Result<void*> MemoryRegistry::allocate(size_t size_bytes) {
  size_t whole_pages = (size_bytes + page_size() - 1) / page_size() * page_size();
  if (whole_pages < size_bytes) {
    return error(Code::kInvalidArgument, "cannot allocate {} bytes: the size is larger than any memory", size_bytes);
  }
  TUTTI_TRY(check_fits(whole_pages));
  auto allocation = std::make_shared<Allocation>();
  allocation->memory.fd = TUTTI_TRY(create_memfd("tutti-memory", whole_pages));
  allocation->memory.mapping = TUTTI_TRY(Mapping::create(allocation->memory.fd.get(), whole_pages));
  allocation->range = allocation->memory.pages = allocation->memory.mapping.bytes();
  allocation->data = allocation->range.data();
  void* address = allocation->data;
  std::unique_lock lock(mutex_);
  drop_all_in(allocation->range);  // the kernel would not have given it while that was there
  insert(std::move(allocation));
  return address;
}

Status MemoryRegistry::free(void* pointer) {
  std::unique_lock lock(mutex_);
  auto found = allocations_.find(address_of(static_cast<std::byte*>(pointer)));
  if (found == allocations_.end() || found->second->is_registered) {
    return error(Code::kInvalidArgument, "tutti_mem_free: {} did not come from tutti_mem_alloc, or was freed already",
                 pointer);
  }
  take(found);
  return {};
}

Result<uint64_t> MemoryRegistry::add(std::span<std::byte> range) {
  std::lock_guard registering(registering_);
  {
    std::unique_lock lock(mutex_);
    TUTTI_TRY(drop_freed(range));
    if (auto holder = holder_of(range.data(), range.size())) {
      ++holder->times;
      return holder->key;
    }
    if (first_in(range) != allocations_.end()) {
      return error(Code::kInvalidUsage,
                   "{} bytes at {} overlap memory that is registered or of tutti_mem_alloc, but do not lie in it; "
                   "register the whole at once, or parts that do not overlap",
                   range.size(), static_cast<void*>(range.data()));
    }
  }
  auto allocation = std::make_shared<Allocation>();
  allocation->memory = TUTTI_TRY(move_onto_memfd(range));
  allocation->range = range;
  allocation->is_registered = true;
  const MovedPages& memory = allocation->memory;
  if (!memory.pages.empty()) {
    allocation->data = memory.mapping.bytes().data() + memory.offset - (memory.pages.data() - range.data());
  }
  std::unique_lock lock(mutex_);
  insert(allocation);
  return allocation->key;
}

Status MemoryRegistry::remove(uint64_t key) {
  std::lock_guard registering(registering_);
  auto find_key = [&] {
    auto is_it = [key](const auto& each) { return each.second->key == key; };
    return std::find_if(allocations_.begin(), allocations_.end(), is_it);
  };
  std::shared_ptr<Allocation> last;
  {
    std::unique_lock lock(mutex_);
    auto found = find_key();
    if (found == allocations_.end()) return {};  // freed meanwhile
    if (found->second->times > 1 || !found->second->is_registered) {
      --found->second->times;
      return {};
    }
    last = found->second;
  }
  Status moved = move_back(last->memory);
  if (moved.code() == Code::kSystem) return moved;
  std::unique_lock lock(mutex_);
  if (auto found = find_key(); found != allocations_.end()) take(found);
  return moved;
}

std::optional<SharedBuffer> MemoryRegistry::find(const std::byte* data, uint64_t size_bytes, const Touched& touched) {
  if (size_bytes == 0 || empty()) return std::nullopt;
  auto buffer = lookup(data, size_bytes);
  if (!buffer || buffer->data == data) return buffer;
  Look look = look_at(*buffer, data, touched);
  if (look == Look::kSame) return buffer;
  if (look == Look::kNowhere) return std::nullopt;
  log_warn("the memory at {} was freed or mapped anew while it was registered, and is used as ordinary memory; "
           "deregister it before that", static_cast<const void*>(data));
  disown(buffer->region.key);
  return std::nullopt;
}

std::optional<SharedBuffer> MemoryRegistry::lookup(const std::byte* data, uint64_t size_bytes) const {
  std::shared_lock lock(mutex_);
  auto holder = holder_of(data, size_bytes);
  if (holder == nullptr || holder->is_disowned || holder->memory.pages.empty()) return std::nullopt;
  const std::byte* first_moved = holder->memory.pages.data();
  const std::byte* last_moved = first_moved + holder->memory.pages.size();
  const std::byte* end = data + size_bytes;
  SharedBuffer buffer{.region = region_of(holder), .data = holder->data + (data - holder->range.data()),
                      .size_bytes = size_bytes};
  if (data < first_moved) buffer.head_bytes = std::min<uint64_t>(first_moved - data, size_bytes);
  if (end > last_moved) buffer.tail_bytes = std::min<uint64_t>(end - last_moved, size_bytes - buffer.head_bytes);
  if (buffer.has_edges() && size_bytes < kLeastWithEdges) return std::nullopt;
  return buffer;
}

void MemoryRegistry::disown(uint64_t key) {
  std::unique_lock lock(mutex_);
  for (auto& [address, allocation] : allocations_) {
    if (allocation->key == key) allocation->is_disowned = true;
  }
  note_change();
}

std::shared_ptr<MemoryRegistry::Allocation> MemoryRegistry::holder_of(const std::byte* data,
                                                                      uint64_t size_bytes) const {
  auto after = allocations_.upper_bound(address_of(data));
  if (after == allocations_.begin()) return nullptr;
  const auto& allocation = std::prev(after)->second;
  uint64_t offset = data - allocation->range.data();
  uint64_t held = allocation->range.size();
  return offset <= held && size_bytes <= held - offset ? allocation : nullptr;
}

MemoryRegistry::Allocations::iterator MemoryRegistry::first_in(std::span<const std::byte> range) {
  auto first = allocations_.upper_bound(address_of(range.data()));
  if (first != allocations_.begin()) {
    auto before = std::prev(first);
    if (address_of(range.data()) - before->first < before->second->range.size()) return before;
  }
  bool overlaps = first != allocations_.end() && first->first - address_of(range.data()) < range.size();
  return overlaps ? first : allocations_.end();
}

// Whoever registers memory anew that he has freed meanwhile has other memory there.
Status MemoryRegistry::drop_freed(std::span<const std::byte> range) {
  for (auto found = first_in(range); found != allocations_.end();) {
    bool overlaps = found->first < address_of(range.data()) + range.size();
    if (!overlaps) break;
    auto next = std::next(found);
    Status is_there = found->second->is_registered ? check_is_there(found->second->memory) : Status();
    if (is_there.code() == Code::kSystem) return is_there;
    if (!is_there.ok()) take(found);
    found = next;
  }
  return {};
}

void MemoryRegistry::drop_all_in(std::span<const std::byte> range) {
  for (auto found = first_in(range); found != allocations_.end(); found = first_in(range)) {
    log_warn("the memory at {} was freed while it was registered; deregister it before that",
             static_cast<const void*>(found->second->range.data()));
    take(found);
  }
}

void MemoryRegistry::insert(std::shared_ptr<Allocation> allocation) {
  allocation->key = next_key_++;
  uintptr_t address = address_of(allocation->range.data());
  allocations_.emplace(address, std::move(allocation));
  count_.store(allocations_.size(), std::memory_order_release);
  note_change();
}

std::shared_ptr<MemoryRegistry::Allocation> MemoryRegistry::take(Allocations::iterator found) {
  note_change();
  std::shared_ptr<Allocation> taken = found->second;
  MemoryRegion region = region_of(taken);
  for (auto& [owner, forget] : listeners_) forget(region);
  allocations_.erase(found);
  count_.store(allocations_.size(), std::memory_order_release);
  return taken;
}

MemoryRegion MemoryRegistry::region_of(const std::shared_ptr<Allocation>& allocation) {
  return {allocation->key, allocation->memory.mapping.bytes(), allocation->memory.fd.get(), allocation};
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
