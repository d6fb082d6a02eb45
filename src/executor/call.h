// Call: one collective call of one rank, bound to addresses; and Peers, the table of those it can talk to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/types.h"
#include "executor/common_slots.h"
#include "executor/message.h"
#include "executor/own_op.h"
#include "executor/peer.h"
#include "executor/slice_flow.h"
#include "plan/partition.h"
#include "plan/payload_sizes.h"
#include "plan/plan.h"

namespace tutti {

// By rank; null where no link is (this rank itself, or a peer that no Program needed so far).
using Peers = std::vector<std::unique_ptr<Peer>>;

// Sizes at which the data path changes its ways; core/thresholds.h derives them from what things cost on the host. Each
// rank has its own, since a message says how its payload comes, but for which calls are tried, and when: that is the
// host's, so that its ranks try the same ones.
struct DataPathOptions {
  uint64_t pull_min_bytes = kLeastPulled;          // lend private memory to a peer that can pull from this size on
  uint64_t lent_min_bytes = kLeastTried;           // messages of this size on are read where they lie, if they can be
  uint64_t windows_min_bytes = 4 * 1024;           // calls made again use shared buffers of this size on in place
  bool messages_try_pulls = false;                 // those that fit into no slot, and find out what is quicker,
  bool messages_try_halves = false;                // also with one half pushed by the sender, on its own processor
  bool collectives_try_pulls = false;              // collectives of kLeastTried or more do as well
  uint64_t streaming_min_bytes = 4 * 1024 * 1024;  // messages from this size on are stored past the caches
  Spread spread;                                   // of slots
  float memory_ns_per_byte = 0.1F;                 // of a copy by one core, in memory
  uint64_t shared_min_bytes = 1024 * 1024;         // calls from this size on may be shared with helpers
  uint64_t common_min_bytes = kLeastCommonBytes;   // values from this size on lie in one slot for all who get them
};

struct Call {
  const PlanShape* shape = nullptr;
  bool peers_rest = false;         // once this rank has their data, they have nothing to compute
  Datatype datatype = TUTTI_FLOAT32;
  ReduceOp op = TUTTI_SUM;
  const OwnOp* own_op = nullptr;   // when the op is one of the program
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  bool in_place = false;           // what the buffers share is the same block in both
  // Of buffers that only devices reach, in a collective that moves data; null: the host reaches them. Of a rank that
  // has both buffers both or none. What this rank's input and output both hold is in both already, and no slice is
  // awaited.
  const DeviceMemory* input_device = nullptr;
  const DeviceMemory* output_device = nullptr;
  Partition partition{0, 4, 1, 1, 64};
  uint64_t size_bytes = 0;         // of the larger buffer
  bool streams = false;            // results are stored past the caches, also those in other ranks' outputs
  uint64_t signature = 0;          // never 0: collective, type, op, count, root, plan and sequence number
  Window input_window;             // when the caller's buffers lie in shared memory
  Window output_window;
  Window landing;                  // else what peers whose puts land there may say for the output
  bool announces_output = false;   // peers are told where the output lies, and may store there
  DataPathOptions options;
  int wish = kNoWish;              // not kNoWish: only peers with that wish pull (Peer::is_wished())
  std::span<CommonSlots> common_slots;  // by channel; none: all values go into slots of each peer
  SliceFlow* flow = nullptr;       // null: the whole input is there, and nobody asks for the output before the end

  bool is_on_devices() const { return input_device != nullptr || output_device != nullptr; }
  // Whether peers may read the caller's buffers in place.
  bool lends() const { return holds(shape->by_reference, in_place); }
};

}  // namespace tutti
