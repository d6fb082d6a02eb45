// The collectives: their names, what their buffers hold, and how nccl-tests counts their bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti::bench {

// What one of a rank's buffers holds.
enum class Holds {
  kNothing,
  kVector,  // elements that all ranks' buffers have alike
  kBlock,   // this rank's block
  kBlocks,  // a block for each rank
};

// What the root does alone: the others' buffer of that side is not used.
enum class RootPart { kNone, kSends, kReceives };

// busbw is algbw times this: what the busiest link must carry.
struct BusFactor {
  std::string_view text;
  double (*of)(int ranks);
};

// What all ranks together must read and write in memory, in sizes of the call.
using Traffic = double (*)(int ranks, bool in_place);

struct CollectiveInfo {
  tutti_collective_t collective;
  std::string_view name;
  std::string_view summary;
  Holds send;
  Holds recv;
  bool reduces;
  bool has_counts;  // blocks of unequal sizes
  RootPart root;
  BusFactor bus_factor;
  Traffic least_traffic;

  bool has_root() const { return root != RootPart::kNone; }
  bool has_data() const { return recv != Holds::kNothing; }
  bool in_blocks() const { return send == Holds::kBlocks || recv == Holds::kBlocks; }
  // That the elements of a call are in.
  uint64_t blocks(int ranks) const { return in_blocks() ? static_cast<uint64_t>(ranks) : 1; }
};

std::span<const CollectiveInfo> collectives();
const CollectiveInfo& info(tutti_collective_t collective);
// Elements of the vector, or of each block (on average), in a call that moves `size_bytes` in nccl-tests' words: the
// bytes of the vector, or of all ranks' blocks. Rounded down to whole elements.
uint64_t count_of(const CollectiveInfo& collective, uint64_t size_bytes, tutti_datatype_t datatype, int ranks);
// Null when there is none.
const CollectiveInfo* collective_named(std::string_view name);

// The blocking function of the call's collective, send or receive.
tutti_status_t run(const tutti_call_t& call, tutti_comm_t* comm);

}  // namespace tutti::bench
