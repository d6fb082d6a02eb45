// DeviceRegions: memory of GPUs that a communicator's data leaves from and arrives in without the host, since NICs
// reach it by themselves. What is registered stays so for the next call, as long as the program does not free it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "core/links.h"
#include "device/device.h"

namespace tutti {

// An allocation. Its dma-buf stays open, so that transports need not call the driver, which may wait for streams that
// wait for them.
class DeviceRegion final : public DeviceMemory {
 public:
  DeviceRegion(DeviceModule& module, const DeviceAllocation& allocation, DmaBuf dma_buf)
      : module_(module), allocation_(allocation), dma_buf_(std::move(dma_buf)) {}
  DeviceRegion(const DeviceRegion&) = delete;
  DeviceRegion& operator=(const DeviceRegion&) = delete;

  std::span<std::byte> bytes() const override { return allocation_.bytes; }
  const DmaBuf& dma_buf() const override { return dma_buf_; }
  Status read(std::span<std::byte> to, const std::byte* from) const override {
    return module_.copy_now({to.data(), from, to.size()}, allocation_.context);
  }
  Status write(std::byte* to, std::span<const std::byte> from) const override {
    return module_.copy_now({to, from.data(), from.size()}, allocation_.context);
  }
  // Whether the GPU sees in order what devices have written there; else streams have to flush.
  bool sees_writes() const { return allocation_.sees_writes; }

 private:
  DeviceModule& module_;
  const DeviceAllocation allocation_;
  const DmaBuf dma_buf_;
};

class DeviceRegions : public std::enable_shared_from_this<DeviceRegions> {
  struct Entry;

 public:
  // A call's buffer: its region is registered until this ends.
  class Use {
   public:
    Use(std::shared_ptr<DeviceRegions> regions, std::shared_ptr<Entry> entry)
        : regions_(std::move(regions)), entry_(std::move(entry)) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use();
    const DeviceRegion& region() const;
    const LocalMemory& memory() const;
    // The ranks that know of it; for the thread with the communicator's turn.
    std::set<int>& told() const;

   private:
    const std::shared_ptr<DeviceRegions> regions_;
    const std::shared_ptr<Entry> entry_;
  };

  // `links` outlives it, or close().
  struct Takes {
    bool messages = true;
    bool collectives = true;
  };
  DeviceRegions(Links& links, const Takes& takes)
      : links_(links), takes_(takes), transport_(links.device_transport()) {}
  ~DeviceRegions() { close(); }
  // Nothing is registered from here on.
  void close();

  // Any thread. Whether a message to or from `peer` may leave there and arrive there, as far as the links go,
  bool takes_message(int peer, uint64_t size_bytes) const;
  // and a collective that moves blocks of that size.
  bool takes_collective(uint64_t block_bytes) const;
  // Any thread. Of a call on a stream of `context`. Null: it goes through the host's memory, and the log says why, once
  // for each reason.
  std::shared_ptr<Use> use(DeviceModule& module, std::span<std::byte> buffer, void* context);

 private:
  struct Entry {
    DeviceAllocation allocation;
    std::unique_ptr<const DeviceRegion> region;  // null: the driver has no dma-buf of it
    const LocalMemory* memory = nullptr;         // of the region
    uint64_t used = 0;                           // by which call last
    std::atomic<int> users{0};
    std::set<int> told;
  };
  using Entries = std::map<uintptr_t, std::shared_ptr<Entry>>;  // by address

  // With mutex_:
  Result<std::shared_ptr<Entry>> entry_of(DeviceModule& module, std::span<std::byte> buffer, void* context);
  void make_room(DeviceModule& module);
  Entries::iterator drop(Entries::iterator entry);
  void tell_why_not(const std::string& why);

  Links& links_;
  const Takes takes_;
  std::mutex mutex_;      // guards what follows, and is held while the driver may wait for streams
  Transport* transport_;  // null: there is none that takes memory of GPUs, or it is closed
  std::mutex closing_;    // so that it is not while a Use ends, which streams wait for
  Entries entries_;
  uint64_t calls_ = 0;
  std::set<std::string> told_;
};

}  // namespace tutti
