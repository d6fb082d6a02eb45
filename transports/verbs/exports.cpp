#include "transports/verbs/exports.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace tutti {
namespace {

bool may_lock_any() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3]{};
  return ::syscall(SYS_capget, &header, data) == 0 && (data[0].effective & 1u << CAP_IPC_LOCK) != 0;
}

}  // namespace

uint64_t default_region_bytes() {
  rlimit limit{};
  bool is_limited = ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited && !may_lock_any() ? limit.rlim_cur / 2 : UINT64_MAX;
}

void VerbsExports::add(const LocalMemory& memory) {
  std::lock_guard lock(mutex_);
  exported_[memory.id].memory = memory;
  if (memory.device == nullptr) return;
  on_devices_[address_of(memory)] = memory.id;
  device_memories_.store(on_devices_.size(), std::memory_order_release);
}

void VerbsExports::remove(uint32_t id) {
  std::lock_guard lock(mutex_);
  auto found = exported_.find(id);
  if (found == exported_.end()) return;
  if (found->second.registrations != nullptr) drop(found->second);
  if (const LocalMemory& memory = found->second.memory; memory.device != nullptr) {
    // At its address there may be another one's by now.
    auto at = on_devices_.find(address_of(memory));
    if (at != on_devices_.end() && at->second == id) on_devices_.erase(at);
    device_memories_.store(on_devices_.size(), std::memory_order_release);
  }
  exported_.erase(found);
  removed_.emplace_back(version_.fetch_add(1, std::memory_order_release) + 1, id);
}

Status VerbsExports::add_device(size_t rail, const VerbsDevice& device) {
  std::lock_guard lock(mutex_);
  devices_.resize(std::max(devices_.size(), rail + 1));
  if (devices_[rail] != nullptr) return {};
  devices_[rail] = &device;
  for (auto& [id, exported] : exported_) {
    exported.refused = 0;  // not by this one
    if (exported.registrations == nullptr) continue;
    auto made = register_with(device, exported.memory, nullptr);
    if (!made.ok() && id == kArena) {
      devices_[rail] = nullptr;
      return std::move(made).status();
    }
    Registrations more = *exported.registrations;
    more.resize(devices_.size());
    if (made.ok()) more[rail] = std::make_shared<const Registration>(std::move(*made));
    exported.registrations = std::make_shared<const Registrations>(std::move(more));
    changed(exported);
  }
  auto first = exported_.find(kArena);
  Status used = first == exported_.end() ? Status() : use_now(first->second);
  if (!used.ok()) {
    devices_[rail] = nullptr;
    first->second.refused = 0;  // by this device
  }
  return used;
}

Status VerbsExports::use(uint32_t id) {
  std::lock_guard lock(mutex_);
  auto found = exported_.find(id);
  return found == exported_.end() ? Status() : use_now(found->second);
}

void VerbsExports::hold(uint32_t id) {
  std::lock_guard lock(mutex_);
  if (auto found = exported_.find(id); found != exported_.end()) ++found->second.holders;
}

void VerbsExports::let_go(uint32_t id) {
  std::lock_guard lock(mutex_);
  if (auto found = exported_.find(id); found != exported_.end()) --found->second.holders;
}

Status VerbsExports::use_now(Exported& exported) {
  exported.used = ++uses_;
  if (exported.registrations != nullptr) return {};
  bool is_of_gpu = exported.memory.device != nullptr;
  bool has_device = std::any_of(devices_.begin(), devices_.end(), [](const auto* each) { return each != nullptr; });
  if (!has_device) return is_of_gpu ? error(Code::kSystem, "no RDMA device is in use yet") : Status();
  bool is_first = exported.memory.id == kArena;
  while (!is_first && !fits(exported) && drop_oldest()) {
  }
  if (!is_first && !fits(exported)) {
    if (is_of_gpu) return error(Code::kSystem, "as many regions are in use as may be registered (TUTTI_IB_REGIONS)");
    return error(Code::kSystem, "{} bytes are more than may be registered at a time (TUTTI_IB_REGION_BYTES)",
                 exported.memory.bytes.size());
  }
  if (exported.refused == drops_) return exported.why_refused;
  Made made = register_everywhere(exported.memory);
  while (made.is_full && drop_oldest()) made = register_everywhere(exported.memory);
  if (made.registrations == nullptr) {
    exported.refused = drops_;
    exported.why_refused = std::move(made.why);
    return exported.why_refused;
  }
  exported.registrations = std::move(made.registrations);
  if (exported.memory.device == nullptr) by_address_[address_of(exported.memory)] = exported.memory.id;
  if (!is_first) {
    ++regions_;
    bytes_ += locked_bytes(exported.memory);
  }
  changed(exported);
  return {};
}

// A device that fails does not keep the others from it, and other memory that gave way would be no help.
VerbsExports::Made VerbsExports::register_everywhere(const LocalMemory& memory) const {
  Registrations made(devices_.size());
  Status why;
  bool any = false;
  for (size_t rail = 0; rail < devices_.size(); ++rail) {
    if (devices_[rail] == nullptr) continue;
    bool is_full = false;
    auto one = register_with(*devices_[rail], memory, &is_full);
    if (!one.ok()) why = one.status();
    if (is_full) return {.registrations = nullptr, .why = std::move(why), .is_full = true};
    if (!one.ok()) continue;
    made[rail] = std::make_shared<const Registration>(std::move(*one));
    any = true;
  }
  if (!any) return {.registrations = nullptr, .why = std::move(why)};
  return {.registrations = std::make_shared<const Registrations>(std::move(made)), .why = {}};
}

// Of a GPU's memory nothing is locked: where it is not taken, that others go does not help.
Result<Registration> VerbsExports::register_with(const VerbsDevice& device, const LocalMemory& memory, bool* is_full) {
  if (memory.device != nullptr) return Registration::create(device, *memory.device);
  return Registration::create(device, memory.bytes, Registration::By::kPeers, is_full);
}

bool VerbsExports::fits(const Exported& exported) const {
  uint64_t locked = locked_bytes(exported.memory);
  return regions_ < bounds_.regions && locked <= bounds_.bytes && bytes_ <= bounds_.bytes - locked;
}

// What is held stays, and the first memory.
bool VerbsExports::drop_oldest() {
  auto oldest = exported_.end();
  for (auto each = exported_.begin(); each != exported_.end(); ++each) {
    const Exported& other = each->second;
    bool stays = each->first == kArena || other.holders > 0;
    if (stays || other.registrations == nullptr) continue;
    if (oldest == exported_.end() || other.used < oldest->second.used) oldest = each;
  }
  if (oldest == exported_.end()) return false;
  drop(oldest->second);
  return true;
}

void VerbsExports::drop(Exported& exported) {
  if (exported.memory.device == nullptr) by_address_.erase(address_of(exported.memory));
  exported.registrations.reset();  // puts that are under way keep it until they have left
  ++drops_;
  if (exported.memory.id != kArena) {
    --regions_;
    bytes_ -= locked_bytes(exported.memory);
  }
  changed(exported);
}

std::optional<VerbsExports::Source> VerbsExports::source_of(std::span<const std::byte> bytes) const {
  std::lock_guard lock(mutex_);
  const Exported* holder = holder_of(by_address_, bytes);
  if (holder == nullptr) holder = holder_of(on_devices_, bytes);
  if (holder == nullptr || (holder->memory.device != nullptr && holder->holders == 0)) return std::nullopt;
  return Source{holder->registrations, holder->memory.bytes, holder->memory.device};
}

const VerbsExports::Exported* VerbsExports::holder_of(const std::map<uintptr_t, uint32_t>& ids,
                                                      std::span<const std::byte> bytes) const {
  auto after = ids.upper_bound(reinterpret_cast<uintptr_t>(bytes.data()));
  if (after == ids.begin()) return nullptr;
  const Exported& exported = exported_.at(std::prev(after)->second);
  auto offset = static_cast<uint64_t>(bytes.data() - exported.memory.bytes.data());
  size_t size_bytes = exported.memory.bytes.size();
  return offset <= size_bytes && bytes.size() <= size_bytes - offset ? &exported : nullptr;
}

VerbsExports::Change VerbsExports::state_of(const Exported& exported) {
  return {.id = exported.memory.id, .bytes = exported.memory.bytes, .registrations = exported.registrations};
}

VerbsExports::Change VerbsExports::state_of(uint32_t id) const {
  std::lock_guard lock(mutex_);
  return state_of(exported_.at(id));
}

std::vector<VerbsExports::Change> VerbsExports::changes_since(uint64_t version) const {
  std::lock_guard lock(mutex_);
  std::vector<Change> changes;
  for (const auto& [id, exported] : exported_) {
    if (exported.changed > version) changes.push_back(state_of(exported));
  }
  auto first = std::upper_bound(removed_.begin(), removed_.end(), std::pair(version, UINT32_MAX));
  for (auto each = first; each != removed_.end(); ++each) {
    changes.push_back({.id = each->second, .bytes = {}, .registrations = nullptr, .is_gone = true});
  }
  return changes;
}

}  // namespace tutti
