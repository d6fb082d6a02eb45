// StreamEntry: where the calls that streams have reached come into a communicator.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "core/gpu_calls.h"
#include "core/request.h"
#include "device/device.h"

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

// Shared by its communicator and by what is on streams, which may be there for longer.
class StreamEntry {
 public:
  explicit StreamEntry(Communicator& communicator) : communicator_(&communicator) {}

  // The communicator takes no more: what is reached from here on is complete at once.
  void close();
  // Any thread: starts the call. `is_new`: the ranks that meet on GPUs have not been told of it. False: closed.
  bool post(tutti_request& request, bool is_new) noexcept;
  // Any thread: has the ranks' GPUs do the call (GpuCalls::put_reached()). False: closed, or it cannot begin any more.
  bool post_on_gpus(const tutti_request& request, const Offer& offer, uint32_t* gate, GpuCalls::Stage stage) noexcept;

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
  // Any thread: there is more to do of a call that was posted.
  void wake() noexcept;
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

}  // namespace tutti
