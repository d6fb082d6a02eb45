// The memory that a rank has exported, and the cache of its registrations with the devices that links use. Registering
// pins memory and takes long, so it waits until a peer is to write there, and then stays: as much as the bounds allow,
// what was used longest ago going first. docs/verbs.md says why memory of others is never registered. Thread-safe.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transports/verbs/device.h"
#include "transports/verbs/wire.h"

namespace tutti {

class VerbsExports {
 public:
  // What is registered beside the first memory, which the links themselves need and which always is.
  struct Bounds {
    size_t regions = SIZE_MAX;
    uint64_t bytes = UINT64_MAX;  // of the host's memory, which is locked for it
  };
  // By the number of the device's port among this rank's; null where that is not in use, or takes no more.
  using Registrations = std::vector<std::shared_ptr<const Registration>>;
  // Memory as devices read it; registered at least as long as this lives.
  struct Source {
    std::shared_ptr<const Registrations> registrations;  // null: of a GPU's memory that is not registered now
    std::span<const std::byte> bytes;
    const DeviceMemory* device = nullptr;
  };
  // What peers may do with memory `id` from now on: write to it, by devices with which it is registered.
  struct Change {
    uint32_t id = 0;
    std::span<std::byte> bytes;
    std::shared_ptr<const Registrations> registrations;  // null: they may not
    bool is_gone = false;     // it is exported no more
  };

  explicit VerbsExports(const Bounds& bounds) : bounds_(bounds) {}

  void add(const LocalMemory& memory);
  void remove(uint32_t id);

  // Links use the device of port `rail` from now on: what is registered is so with it too. Errors: not even the first
  // memory can be.
  Status add_device(size_t rail, const VerbsDevice& device);
  // Sees to it that the memory is registered, if there is a device. Errors: it cannot be; peers are served without. Of
  // a GPU's memory, also that there is no device yet.
  Status use(uint32_t id);
  // Between the two it stays as it is, whatever else is used. Counted.
  void hold(uint32_t id);
  void let_go(uint32_t id);
  // The memory that holds all of `bytes`, if it is registered, or a GPU's that is held.
  std::optional<Source> source_of(std::span<const std::byte> bytes) const;
  bool has_device_memory() const { return device_memories_.load(std::memory_order_acquire) > 0; }

  // Goes up with every change: one load, so that a Link can ask every time.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  std::vector<Change> changes_since(uint64_t version) const;
  Change state_of(uint32_t id) const;

 private:
  struct Exported {
    LocalMemory memory;
    std::shared_ptr<const Registrations> registrations;
    uint64_t used = 0;       // the use() that was the last
    uint64_t holders = 0;
    uint64_t refused = 0;    // drops_ when the system took no more
    Status why_refused;
    uint64_t changed = 0;    // the version since which it is as it is
  };
  static Change state_of(const Exported& exported);
  // With mutex_.
  Status use_now(Exported& exported);
  struct Made {
    std::shared_ptr<const Registrations> registrations;  // by those devices that work; null: by none
    Status why;              // not by all
    bool is_full = false;    // a device takes no more until something is given up
  };
  Made register_everywhere(const LocalMemory& memory) const;
  bool fits(const Exported& exported) const;
  bool drop_oldest();
  void drop(Exported& exported);
  static Result<Registration> register_with(const VerbsDevice& device, const LocalMemory& memory, bool* is_full);
  static uint64_t locked_bytes(const LocalMemory& memory) { return memory.device ? 0 : memory.bytes.size(); }
  const Exported* holder_of(const std::map<uintptr_t, uint32_t>& ids, std::span<const std::byte> bytes) const;
  static uintptr_t address_of(const LocalMemory& memory) { return reinterpret_cast<uintptr_t>(memory.bytes.data()); }
  void changed(Exported& exported) { exported.changed = version_.fetch_add(1, std::memory_order_release) + 1; }

  const Bounds bounds_;
  std::vector<const VerbsDevice*> devices_;   // by rail; null where no link uses it
  mutable std::mutex mutex_;
  std::map<uint32_t, Exported> exported_;     // by id
  std::map<uintptr_t, uint32_t> by_address_;  // what is registered of the host's
  std::map<uintptr_t, uint32_t> on_devices_;  // by address: of GPUs
  std::atomic<size_t> device_memories_{0};
  std::vector<std::pair<uint64_t, uint32_t>> removed_;  // version and id
  size_t regions_ = 0;                        // registered, beside the first
  uint64_t bytes_ = 0;                        // of them, that are locked
  uint64_t uses_ = 0;
  uint64_t drops_ = 1;                        // registrations that have ended
  std::atomic<uint64_t> version_{0};
};

// Half of what this process may lock in memory; as much as there is where it may lock any.
uint64_t default_region_bytes();

}  // namespace tutti
