// The memory that one rank has exported. Thread-safe: links of other threads ask it what has been released meanwhile.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "transports/transport.h"

namespace tutti {

class ExportTable {
 public:
  // Ids are 1, 2, 3, ... in the order of export. The result lives until remove().
  const LocalMemory* add(std::span<std::byte> bytes, int fd, std::shared_ptr<const void> owner);
  void remove(const LocalMemory* memory);

  // How many have been removed so far: one load, so that a Link can ask every time.
  size_t removals() const { return removals_.load(std::memory_order_acquire); }
  // The ids of the removals from number `first` on.
  std::vector<uint32_t> removed_since(size_t first) const;

 private:
  mutable std::mutex mutex_;
  std::map<uint32_t, std::unique_ptr<LocalMemory>> memories_;
  std::vector<uint32_t> removed_;
  std::atomic<size_t> removals_{0};
  uint32_t last_id_ = 0;
};

}  // namespace tutti
