#include "transports/common/export_table.h"

namespace tutti {

const LocalMemory* ExportTable::add(std::span<std::byte> bytes, int fd, std::shared_ptr<const void> owner) {
  std::lock_guard lock(mutex_);
  uint32_t id = ++last_id_;
  auto memory =
      std::make_unique<LocalMemory>(LocalMemory{.id = id, .bytes = bytes, .fd = fd, .owner = std::move(owner)});
  return memories_.emplace(id, std::move(memory)).first->second.get();
}

void ExportTable::remove(const LocalMemory* memory) {
  std::lock_guard lock(mutex_);
  removed_.push_back(memory->id);
  memories_.erase(memory->id);
  removals_.store(removed_.size(), std::memory_order_release);
}

std::vector<uint32_t> ExportTable::removed_since(size_t first) const {
  std::lock_guard lock(mutex_);
  return {removed_.begin() + static_cast<ptrdiff_t>(first), removed_.end()};
}

}  // namespace tutti
