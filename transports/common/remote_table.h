// The peer's memory as one Link knows it, by id. Belongs to the thread that advances the Link.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/status.h"
#include "transports/transport.h"

namespace tutti {

class RemoteTable {
 public:
  // `owner` is what keeps `mapped` valid, none if something else does. A second memory with the same id is refused:
  // false.
  bool add(uint32_t id, size_t size_bytes, std::byte* mapped, std::shared_ptr<const void> owner = {}) {
    return memories_.try_emplace(id, Entry{{.id = id, .size_bytes = size_bytes, .mapped = mapped}, std::move(owner)})
        .second;
  }
  // The peer has released it. Errors: it cannot have.
  Status remove(uint32_t id) {
    if (id != kArena && id != kLanding && memories_.erase(id) > 0) return {};
    return error(Code::kRemote, "the peer released memory {}, which {}", id,
                 memories_.contains(id) ? "stays as long as the link" : "it had not shared");
  }
  // Stays valid until remove(id) succeeds; nullptr if unknown.
  const RemoteMemory* find(uint32_t id) const {
    auto found = memories_.find(id);
    return found == memories_.end() ? nullptr : &found->second.memory;
  }

 private:
  struct Entry {
    RemoteMemory memory;
    std::shared_ptr<const void> owner;
  };
  std::unordered_map<uint32_t, Entry> memories_;
};

}  // namespace tutti
