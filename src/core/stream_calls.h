// StreamCalls: calls on buffers of GPUs. A stream brings their data to host memory that peers reach; when it gets
// there, the communicator makes the call on that memory, like any other; then the stream takes the result back. So
// ranks with buffers of GPUs and ranks with buffers of the host make the same calls.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/device_watch.h"
#include "core/request.h"
#include "core/staging_pool.h"
#include "core/stream_entry.h"
#include "device/devices.h"

namespace tutti {

class Communicator;

class StreamCalls {
  struct Staged;

 public:
  explicit StreamCalls(MemoryRegistry& registry);

  Devices& devices() { return devices_; }
  DeviceWatch& watch() { return watch_; }

  // Of the buffers that a call uses.
  struct Uses {
    bool devices = false;                // one that the host cannot use
    const char* host_alone = nullptr;    // the name of one that streams cannot use
  };
  Result<Uses> uses_of(const CallArguments& arguments, const Geometry& geometry);

  // One call of a batch, or several small ones that are joined.
  struct Part {
    std::unique_ptr<tutti_request> request;  // admitted
    std::optional<tutti_stream_t> stream;    // none: on buffers of the host, whose caller waits
  };
  struct Call {
    Communicator* communicator = nullptr;
    std::vector<Part> parts;
  };
  // What callers on the host wait for.
  class HostParts {
   public:
    // Blocks until they are complete. Errors: the first one of them.
    Status wait();

   private:
    friend class StreamCalls;
    std::shared_ptr<Staged> staged_;
  };
  // Puts the calls on their streams as one batch: none of them waits for another. Does not wait for them. Errors: the
  // streams cannot take a call, and then nothing was started; others fail the communicators.
  Result<HostParts> enqueue(std::vector<Call> calls);

 private:
  // The words that a stream waits on and stores to.
  struct Words {
    alignas(64) uint32_t gate = 0;
    alignas(64) uint32_t passed = 0;
  };

  Status put(const std::shared_ptr<Staged>& staged, DeviceModule& module);
  Status put_in_order(const std::shared_ptr<Staged>& staged, DeviceModule& module, const WordValue& ends_with = {});
  // What is left of a call whose buffers are as they were.
  struct Alone {
    std::shared_ptr<StreamEntry> entry;  // shared by the communicator and by what is on streams
    Communicator* communicator = nullptr;
    int nranks = 0;
    CallArguments arguments;
    Geometry geometry;
  };
  Status put_alone(const Alone& call, const DeviceModule::Stream& stream, const GpuCalls::Staged& as);
  // kAnnounced: the other ranks know that it goes through the host.
  enum class OnGpu { kNo, kPut, kAnnounced };
  struct PutOnGpus {
    OnGpu state = OnGpu::kNo;
    GpuCalls::Staged staged;  // of kAnnounced
  };
  Result<PutOnGpus> put_on_gpus(const std::shared_ptr<Staged>& staged, DeviceModule& module);
  Status announce(Staged& staged) const;
  struct Between {
    WordValue begins_at;
    WordValue ends_with;
  };
  // Of a batch of calls.
  struct Orders {
    std::vector<StreamOrder*> to_end;    // who comes next waits until this has ended
    std::vector<StreamOrder*> to_begin;  // or until it has begun
  };
  Status put_staged(const std::shared_ptr<Staged>& staged, DeviceModule& module, const Orders& orders,
                    const Between& between);
  Status find_streams(Staged& staged, DeviceModule& module) const;
  Result<Words*> take_words();
  Status stage(Staged& staged, DeviceModule& module);
  // Has NICs send and receive where the call's buffers are, if they can. True: the buffers need no host memory.
  static Result<bool> is_left_on_devices(tutti_request& request, Communicator& communicator, const Staged& staged,
                                         DeviceModule& module);
  void cut_into_pieces(Staged& staged) const;
  void collect();

  Devices devices_;
  DeviceWatch watch_;
  std::atomic<void*> context_{nullptr};   // of a stream that was used, for pinning
  StagingPool staging_;                   // pinned; what was pinned stays, since devices may wait for letting go of it
  std::mutex mutex_;                      // guards what follows
  std::vector<StagingPool::Memory> word_memory_;
  std::vector<Words*> free_words_;
  std::vector<std::shared_ptr<Staged>> on_streams_;  // and in graphs
};

}  // namespace tutti
