// One call on its way: what tutti_request_t points to, and what blocking calls are too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "core/arguments.h"
#include "core/device_regions.h"
#include "core/memory_registry.h"
#include "executor/message.h"
#include "executor/own_op.h"
#include "executor/slice_flow.h"

namespace tutti {

class Communicator;

// How far a send or a receive has come.
struct Transfer {
  int peer = -1;             // the other rank; -1 while a receive has no message
  uint32_t offer = 0;        // the sender's number of a message whose data it still has
  uint64_t size_bytes = 0;   // of the message
  uint64_t moved_bytes = 0;  // of its data, to or from the caller's buffer; but for what is pushed
  const std::byte* from = nullptr;  // where a send's data lie: in the caller's buffer, at this or another address
  uint64_t address = 0;      // where a receive reads the data, in the sender's private memory; of a send: where it
                             // pushes them, in the receiver's;
  Window window;             // or in what the other one shares
  uint64_t to_push_bytes = 0;  // so much of the data's end the sender pushes, while the receiver reads the rest
  uint64_t pushed_bytes = 0;   // of that has been
  std::optional<SharedBuffer> placed;  // of a receive: the memory there
  Window landing;            // of a receive: what the sender was told of its buffer, where puts may land in any memory
  bool is_on_device = false;           // of a receive: the sender was told where its buffer is, which is a GPU's
  size_t position = 0;       // among those in flight
  std::optional<Clock::time_point> tried_since;  // of a receive that shows how long its way takes
  bool settles = false;      // it is done, but for what the link has not sent yet
  std::optional<Clock::time_point> slow_since;  // when it was first looked at

  // Of a receive: whether its data may be put where they go.
  bool has_place() const { return placed || landing || is_on_device; }
  // And how much of it is there.
  uint64_t received_bytes() const { return moved_bytes + pushed_bytes; }
};

}  // namespace tutti

// In the global namespace because the C API names it.
struct tutti_request {
  tutti::Communicator* communicator = nullptr;
  tutti_comm* handle = nullptr;  // keeps the sentence of an error; null for blocking calls, and once it is destroyed
  tutti::CallArguments arguments;
  std::vector<uint64_t> counts;  // what the arguments' arrays refer to
  tutti::Geometry geometry;
  tutti::OwnOp own_op;           // when the arguments' op is one
  uint64_t counts_digest = 0;    // of a call that stands for several of a group
  uint32_t members = 0;          // how many they are
  bool is_repeated = false;      // of a blocking call: its arguments are those of the last one
  tutti::Transfer transfer;      // of a send or a receive
  // Where a buffer is a GPU's, and NICs reach it there.
  std::shared_ptr<tutti::DeviceRegions::Use> input_device;
  std::shared_ptr<tutti::DeviceRegions::Use> output_device;
  std::optional<void*> profiled;    // while it runs: what the profiler has returned for it
  uint64_t number = 0;              // which collective it is, where ranks' GPUs do some; 0: known once it begins
  bool is_told = false;             // of such: GpuCalls tells the profiler
  tutti::Status result;             // valid once done
  std::atomic<bool> done{false};
  bool queued = false;              // others may see it
  tutti_prepared* owner = nullptr;  // of a prepared call; else whoever takes the request frees it
  void (*completed)(tutti_request&) = nullptr;  // called once done, of a call that a stream waits for
  void* staged = nullptr;                       // what it belongs to
  tutti::SliceFlow* flow = nullptr;             // of a call that has its data come and go while it runs
  tutti_request* next = nullptr;    // in a RequestQueue
  tutti_request* older = nullptr;   // in the handle's list
  tutti_request* newer = nullptr;
};

namespace tutti {

// Requests in the order in which they came.
class RequestQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  tutti_request* front() { return first_; }
  void push(tutti_request& request) {
    request.next = nullptr;
    (last_ == nullptr ? first_ : last_->next) = &request;
    last_ = &request;
  }
  // Null when there is none.
  tutti_request* pop() {
    tutti_request* request = first_;
    if (request == nullptr) return nullptr;
    first_ = request->next;
    if (first_ == nullptr) last_ = nullptr;
    return request;
  }

 private:
  tutti_request* first_ = nullptr;
  tutti_request* last_ = nullptr;
};

}  // namespace tutti
