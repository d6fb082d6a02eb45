// One call on its way: what tutti_request_t points to, and what blocking calls keep on the stack.
#pragma once

#include <atomic>

#include "base/deadline.h"
#include "base/status.h"
#include "base/types.h"

namespace tutti {

class Communicator;

struct CallArguments {
  Collective collective = TUTTI_ALL_REDUCE;
  Datatype datatype = TUTTI_FLOAT32;
  ReduceOp op = TUTTI_SUM;
  int root = -1;
  uint64_t count = 0;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  int64_t timeout_ms = 0;  // 0: the communicator's
};

}  // namespace tutti

// In the global namespace because the C API names it.
struct tutti_request {
  tutti::Communicator* communicator = nullptr;
  tutti_comm* handle = nullptr;  // keeps the sentence of an error; null for blocking calls, and once it is destroyed
  tutti::CallArguments arguments;
  tutti::Status result;             // valid once done
  std::atomic<bool> done{false};
  bool queued = false;              // others may see it
  tutti_request* next = nullptr;    // in the communicator's queue
  tutti_request* older = nullptr;   // in the handle's list
  tutti_request* newer = nullptr;
};
