// One call on its way: what tutti_request_t points to, and what blocking calls keep on the stack.
#pragma once

#include <atomic>
#include <vector>

#include "base/deadline.h"
#include "base/status.h"
#include "core/arguments.h"
#include "executor/own_op.h"

namespace tutti {

class Communicator;

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
  tutti::Status result;             // valid once done
  std::atomic<bool> done{false};
  bool queued = false;              // others may see it
  tutti_prepared* owner = nullptr;  // of a prepared call; else whoever takes the request frees it
  tutti_request* next = nullptr;    // in the communicator's queue
  tutti_request* older = nullptr;   // in the handle's list
  tutti_request* newer = nullptr;
};
