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
#include "core/gpu_calls.h"
#include "core/request.h"
#include "core/staging_pool.h"
#include "device/devices.h"

namespace tutti {

class Communicator;

// The calls of a communicator that keep an order among each other, whichever streams they are on: collectives one after
// another; messages begin one after another each way, and none of them waits until another one has come.
enum class Sequence : uint8_t { kCollectives, kSends, kReceives };
inline constexpr size_t kSequences = 3;
inline Sequence sequence_of(Collective collective) {
  if (!is_point_to_point(collective)) return Sequence::kCollectives;
  return collective == TUTTI_SEND ? Sequence::kSends : Sequence::kReceives;
}

// Where the calls that streams have reached come into a communicator. Shared by that and by what is on streams, which
// may be there for longer.
class StreamEntry {
 public:
  explicit StreamEntry(Communicator& communicator) : communicator_(&communicator) {}

  // The communicator takes no more: what is reached from here on is complete at once.
  void close();
  // Any thread: starts the call. `is_new`: the ranks that meet on GPUs have not been told of it. False: closed.
  bool post(tutti_request& request, bool is_new) noexcept;
  // Any thread: has the ranks' GPUs do the call (GpuCalls::put_reached()). False: closed, or it cannot begin any more.
  bool post_on_gpus(const Offer& offer, uint32_t* gate, GpuCalls::Stage stage) noexcept;

  // Calls that are on streams which have not reached them.
  void expect(Sequence sequence) { unreached_of(sequence).fetch_add(1, std::memory_order_acq_rel); }
  void reached(Sequence sequence) noexcept;
  int unreached(Sequence sequence) const {
    return unreached_[static_cast<size_t>(sequence)].load(std::memory_order_acquire);
  }
  int unreached() const {
    return unreached(Sequence::kCollectives) + unreached(Sequence::kSends) + unreached(Sequence::kReceives);
  }
  // Blocks until there are none of that sequence, or for that long. False: there still are.
  bool await_reached(Sequence sequence, int64_t timeout_ms);

  // Any thread: the communicator has failed, and may open gates of its calls at any time from here on.
  void lose_gates() { loses_gates_.store(true, std::memory_order_release); }
  bool loses_gates() const { return loses_gates_.load(std::memory_order_acquire); }

  // Whether streams are done with all collectives.
  bool is_quiet();
  // Errors: a device has failed, and some of them may never be reached.
  Status look_at_device();
  // Whether some are under way, as far as that is known without the driver.
  bool has_calls();
  // What only this rank suffers.
  void break_down(const Status& why) noexcept;
  std::atomic<bool> is_watched{false};  // the DeviceWatch's

 private:
  friend class StreamCalls;

  std::mutex mutex_;  // guards communicator_
  Communicator* communicator_;
  std::array<std::atomic<int>, kSequences> unreached_{};
  std::condition_variable all_reached_;
  std::atomic<bool> loses_gates_{false};

  std::atomic<int>& unreached_of(Sequence sequence) { return unreached_[static_cast<size_t>(sequence)]; }
  // The mutex guards the order, and is held while calls of that sequence are put on streams, which for collectives may
  // last until all ranks have made them. Messages go meanwhile: another rank may need them before it makes its call.
  struct Sequenced {
    std::mutex mutex;
    std::unique_ptr<StreamOrder> order;
  };
  Sequenced& of(Sequence sequence) { return sequences_[static_cast<size_t>(sequence)]; }
  // With its mutex.
  StreamOrder& order_of(Sequence sequence, DeviceModule& module);

  std::array<Sequenced, kSequences> sequences_;
};

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
  Status put_alone(const Alone& call, const DeviceModule::Stream& stream, const WordValue& begins_at,
                   const WordValue& ends_with);
  // kAnnounced: the other ranks know that it goes through the host.
  enum class OnGpu { kNo, kPut, kAnnounced };
  struct PutOnGpus {
    OnGpu state = OnGpu::kNo;
    WordValue ends_with;  // of kAnnounced
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
  // Has a NIC send and receive the message where its buffer is, if one can. True: the buffer needs no host memory.
  static bool is_left_on_device(tutti_request& request, Communicator& communicator, const Staged& staged,
                                DeviceModule& module);
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
