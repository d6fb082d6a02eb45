// What a call's arguments mean: whether they are right, what the caller's buffers hold, and how the executor sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "plan/partition.h"
#include "plan/plan.h"

namespace tutti {

struct CallArguments {
  Collective collective = TUTTI_ALL_REDUCE;
  Datatype datatype = TUTTI_FLOAT32;
  ReduceOp op = TUTTI_SUM;
  int root = -1;           // -1 where there is none
  uint64_t count = 0;      // elements of a buffer with one block, or of each block
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  // Of the forms with counts, by rank; null on ranks that do not need them.
  const uint64_t* send_counts = nullptr;
  const uint64_t* send_displacements = nullptr;
  const uint64_t* recv_counts = nullptr;
  const uint64_t* recv_displacements = nullptr;
  int64_t timeout_ms = 0;  // 0: the communicator's
  // Of a send or a receive.
  int peer = -1;
  int tag = 0;
  tutti_message_t* message = nullptr;
  void (*completed)(void* context) = nullptr;  // of a started call
  void* context = nullptr;

  friend bool operator==(const CallArguments&, const CallArguments&) = default;
};

// How the caller's buffers lie, on this rank.
struct Geometry {
  uint64_t input_bytes = 0;   // from the start of the buffer to the end of its last block; 0: not used
  uint64_t output_bytes = 0;
  bool in_place = false;
  bool onto_input = false;    // the output begins where the input does, but holds another block of it
  Blocks input;               // where the collective has blocks
  Blocks output;
  uint64_t plan_count = 0;    // what the planner goes by (planner.h); the same on all ranks
  uint64_t said_count = 0;    // what ranks compare and tell; the same on all ranks
};

// Copies the caller's arrays of `arguments` to `storage`, which they then refer to, and fills in what he left out. Does
// nothing for collectives without counts. Errors: an array is missing.
Status keep_counts(CallArguments& arguments, int rank, int nranks, std::vector<uint64_t>& storage);

// Errors: whatever is wrong with the arguments but the buffers. After keep_counts().
Result<Geometry> geometry_of(const CallArguments& arguments, int rank, int nranks);
// Errors: a buffer is NULL, or both overlap and are not in place.
Status check_buffers(const CallArguments& arguments, const Geometry& geometry);

// Of a send and a receive that are one call. Errors: the buffers overlap.
Status check_apart(const CallArguments& send, const CallArguments& receive);

Partition partition_of(const CallArguments& arguments, const Geometry& geometry, const PlanShape& shape, int rank);

}  // namespace tutti
