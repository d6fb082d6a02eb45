#include "transports/verbs/exports.h"

namespace tutti {

const LocalMemory* VerbsExports::add(std::span<std::byte> memory, int fd) {
  const LocalMemory* added = table_.add(memory, fd);
  std::lock_guard lock(mutex_);
  exported_[added->id].bytes = memory;
  return added;
}

void VerbsExports::remove(const LocalMemory* memory) {
  {
    std::lock_guard lock(mutex_);
    exported_.erase(memory->id);
  }
  table_.remove(memory);
}

Result<RemoteRange> VerbsExports::range_of(const VerbsDevice& device, const LocalMemory& memory) {
  std::lock_guard lock(mutex_);
  return range_of(device, exported_[memory.id]);
}

Status VerbsExports::register_all(const VerbsDevice& device) {
  std::lock_guard lock(mutex_);
  for (auto& [id, exported] : exported_) TUTTI_TRY(range_of(device, exported));
  return {};
}

Result<RemoteRange> VerbsExports::range_of(const VerbsDevice& device, Exported& exported) {
  if (!exported.registration) {
    exported.registration = TUTTI_TRY(Registration::create(device, exported.bytes, Registration::By::kPeers));
  }
  return RemoteRange{reinterpret_cast<uint64_t>(exported.bytes.data()), exported.registration.remote_key()};
}

}  // namespace tutti
