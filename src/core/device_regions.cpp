#include "core/device_regions.h"

#include "base/log.h"
#include "planner/planner.h"

namespace tutti {
namespace {

// Less is sent at once, and kept by its receiver until a receive matches: it goes through the host's memory anyway.
constexpr uint64_t kMostThroughHost = StreamLayout::kDirect.slot_bytes;

// Each has a file open.
constexpr size_t kMostRegions = 256;

uintptr_t address_of(std::span<std::byte> bytes) { return reinterpret_cast<uintptr_t>(bytes.data()); }

bool overlap(std::span<std::byte> a, std::span<std::byte> b) {
  return address_of(a) < address_of(b) + b.size() && address_of(b) < address_of(a) + a.size();
}

bool holds(std::span<std::byte> whole, std::span<std::byte> part) {
  uint64_t offset = address_of(part) - address_of(whole);
  return address_of(part) >= address_of(whole) && offset <= whole.size() && part.size() <= whole.size() - offset;
}

}  // namespace

DeviceRegions::Use::~Use() {
  std::lock_guard lock(regions_->closing_);
  if (regions_->transport_ != nullptr) regions_->transport_->let_go(entry_->memory);
  --entry_->users;  // last: from here on the entry may be dropped
}

const DeviceRegion& DeviceRegions::Use::region() const { return *entry_->region; }
const LocalMemory& DeviceRegions::Use::memory() const { return *entry_->memory; }
std::set<int>& DeviceRegions::Use::told() const { return entry_->told; }

void DeviceRegions::close() {
  std::lock_guard lock(mutex_);
  std::lock_guard no_use_ends(closing_);
  for (auto each = entries_.begin(); each != entries_.end();) each = drop(each);
  transport_ = nullptr;
}

bool DeviceRegions::takes_message(int peer, uint64_t size_bytes) const {
  return takes_.messages && size_bytes > kMostThroughHost && peer >= 0 && links_.reaches_device_memory(peer);
}

bool DeviceRegions::takes_collective(uint64_t block_bytes) const {
  return takes_.collectives && block_bytes > kMostBlockBytesWithoutRendezvous && links_.may_reach_all_device_memory();
}

std::shared_ptr<DeviceRegions::Use> DeviceRegions::use(DeviceModule& module, std::span<std::byte> buffer,
                                                       void* context) {
  std::lock_guard lock(mutex_);
  if (transport_ == nullptr) return nullptr;
  auto found = entry_of(module, buffer, context);
  if (!found.ok()) {
    tell_why_not(std::string(found.status().message()));
    return nullptr;
  }
  const std::shared_ptr<Entry>& entry = *found;
  entry->used = ++calls_;
  if (entry->region == nullptr) return nullptr;
  transport_->hold(entry->memory);
  Status used = transport_->use(entry->memory);
  if (used.ok()) {
    ++entry->users;
    return std::make_shared<Use>(shared_from_this(), entry);
  }
  transport_->let_go(entry->memory);
  tell_why_not(std::string(used.message()));
  return nullptr;
}

// What was registered is looked at anew each time: the program may have freed it and got other memory there.
Result<std::shared_ptr<DeviceRegions::Entry>> DeviceRegions::entry_of(DeviceModule& module,
                                                                      std::span<std::byte> buffer, void* context) {
  auto after = entries_.upper_bound(address_of(buffer));
  if (after != entries_.begin()) {
    const auto& before = std::prev(after)->second;
    bool is_there = holds(before->allocation.bytes, buffer) &&
                    module.allocation_id(before->allocation.bytes.data()) == before->allocation.id;
    if (is_there) return before;
  }
  DeviceAllocation allocation = TUTTI_TRY(module.allocation_of(buffer.data(), context));
  if (!holds(allocation.bytes, buffer)) return error(Code::kCuda, "a buffer that spans several allocations");
  make_room(module);
  for (const auto& [address, entry] : entries_) {
    if (!overlap(entry->allocation.bytes, allocation.bytes)) continue;
    return error(Code::kCuda, "memory at the address of freed memory that a call still uses");
  }
  auto entry = std::make_shared<Entry>();
  entry->allocation = allocation;
  auto dma_buf = module.open_dma_buf(allocation);
  if (dma_buf.ok()) {
    entry->region = std::make_unique<const DeviceRegion>(module, allocation, std::move(*dma_buf));
    entry->memory = transport_->export_device_memory(*entry->region);
  } else {
    tell_why_not(std::string(dma_buf.status().message()));
  }
  entries_.emplace(address_of(allocation.bytes), entry);
  return entry;
}

// For one more: what was freed goes, and what was used longest ago, if there are many.
void DeviceRegions::make_room(DeviceModule& module) {
  auto oldest = entries_.end();
  for (auto each = entries_.begin(); each != entries_.end();) {
    const Entry& entry = *each->second;
    bool is_there = module.allocation_id(entry.allocation.bytes.data()) == entry.allocation.id;
    if (entry.users == 0 && !is_there) {
      each = drop(each);
      continue;
    }
    if (entry.users == 0 && (oldest == entries_.end() || entry.used < oldest->second->used)) oldest = each;
    ++each;
  }
  if (entries_.size() >= kMostRegions && oldest != entries_.end()) drop(oldest);
}

DeviceRegions::Entries::iterator DeviceRegions::drop(Entries::iterator entry) {
  if (entry->second->memory != nullptr) transport_->release(entry->second->memory);
  return entries_.erase(entry);
}

void DeviceRegions::tell_why_not(const std::string& why) {
  if (told_.insert(why).second) log_info("GPU memory goes through the host's: {}", why);
}

}  // namespace tutti
