// One rank's part of a Plan as its GPU runs it: a launch of as many blocks of threads as the Plan has channels, each of
// which walks the channel's ops. Plain data that the host writes and the GPU reads; executor/gpu_call.h makes it.
//
// All GPUs of a call reach each other's buffers, and the arenas that their ranks have for messages. A message is one
// word, in the arena of its receiver; its payload is in a slot there, or in a buffer of the sender, or already in the
// output of the receiver.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace tutti::cuda {

constexpr uint32_t kMostGpus = 16;         // that take part in a call
constexpr uint32_t kMostGpuChannels = 32;  // blocks of a launch
constexpr uint32_t kProgramThreads = 256;  // of a block: more would have too few registers
constexpr uint32_t kMessageSlots = 4;      // of a stream: so many of its messages are under way at most
constexpr uint32_t kMostGpuTemps = 16;     // for each channel
constexpr int32_t kNoGpuChunk = -1;        // of bare signals

struct GpuSpan {
  uint32_t first = 0;
  uint32_t count = 0;
};

// All operands of an op mean its chunk.
enum class GpuSpace : uint8_t { kInput, kOutput, kTemp, kArrival };
struct GpuOperand {
  GpuSpace space = GpuSpace::kInput;
  int32_t index = 0;  // of a temp; the peer of an arrival
};
struct GpuSend {
  int32_t peer = 0;
  bool is_into_output = false;            // of the peer
  GpuSpace source = GpuSpace::kArrival;   // kInput, kOutput: where the value lies too; others mean nothing
};

// As Op (executor/program.h), where a wait never stores.
struct GpuOp {
  bool is_wait = false;
  bool finish = false;
  bool release = false;         // of a wait: nobody reads the arrival
  uint8_t lag = 0;
  int32_t chunk = kNoGpuChunk;
  int32_t peer = -1;            // of a wait
  GpuSpan sources;
  GpuSpan destinations;
  GpuSpan sends;
  GpuSpan releases;             // peers
};
struct GpuSection {
  GpuSpan ops;
  uint32_t most_lag = 0;
};

// The operation that a launch combines by; averages are sums with a divisor. A launch is told which: with a kernel for
// each, building them would take four times as long. Bytes of any type have those on bits, types the others.
enum class GpuReduceOp : uint32_t { kSum, kProd, kMax, kMin, kBitAnd, kBitOr, kBitXor };

// What the bytes begin with. The tables follow; where, is given from the beginning of this.
struct GpuProgram {
  GpuSpan channels[kMostGpuChannels];  // each has these sections
  uint32_t sections = 0;
  uint32_t ops = 0;
  uint32_t operands = 0;
  uint32_t sends = 0;
  uint32_t releases = 0;               // of int32_t

  template <class T>
  TUTTI_HOST_DEVICE const T* table(uint32_t offset) const {
    return reinterpret_cast<const T*>(reinterpret_cast<const char*>(this) + offset);
  }
};

// What a rank has for messages, on its GPU: zeros when the first call begins.
struct GpuArena {
  uint32_t ranks = 0;
  uint32_t channels = 0;    // that any call may have
  uint64_t slot_bytes = 0;  // a multiple of 64

  // The messages of a peer, by their number.
  TUTTI_HOST_DEVICE uint64_t line(uint32_t peer, uint32_t channel, uint64_t number) const {
    return ((uint64_t{peer} * channels + channel) * kMessageSlots + number % kMessageSlots) * sizeof(uint64_t);
  }
  // How many of this rank's messages the peer has released.
  TUTTI_HOST_DEVICE uint64_t freed(uint32_t peer, uint32_t channel) const {
    return line(ranks, 0, 0) + (uint64_t{peer} * channels + channel) * sizeof(uint64_t);
  }
  // Messages so far, to a peer and from it: for this rank alone.
  TUTTI_HOST_DEVICE uint64_t counters(uint32_t peer, uint32_t channel) const {
    return freed(ranks, 0) + (uint64_t{peer} * channels + channel) * 2 * sizeof(uint64_t);
  }
  TUTTI_HOST_DEVICE uint64_t slot(uint32_t peer, uint32_t channel, uint64_t number) const {
    const uint64_t words = (counters(ranks, 0) + 255) / 256 * 256;
    return words + ((uint64_t{peer} * channels + channel) * kMessageSlots + number % kMessageSlots) * slot_bytes;
  }
  TUTTI_HOST_DEVICE uint64_t temp(uint32_t channel, uint32_t index) const {
    return slot(ranks, 0, 0) + (uint64_t{channel} * kMostGpuTemps + index) * slot_bytes;
  }
  TUTTI_HOST_DEVICE uint64_t size_bytes() const { return temp(channels, 0); }
};

// Where the blocks of a buffer lie: that of a chunk is chunk / divide % modulo.
struct GpuBlocks {
  uint32_t divide = 1;
  uint32_t modulo = 1;
};

// The buffers of a rank, as this GPU reaches them.
struct GpuRank {
  uint64_t input = 0;
  uint64_t output = 0;
  uint64_t arena = 0;
  uint32_t takes_output = 0;  // 1: messages into its output are stored there
};

struct ProgramArgs {
  const GpuProgram* program = nullptr;
  const uint32_t* cancelled = nullptr;  // of the host: not 0 ends all waits
  uint32_t* late = nullptr;             // of the host: what is waited for longer than that is said here: the peer + 1
  uint64_t limit_ns = 0;
  GpuArena arena;
  uint64_t count = 0;          // elements of the vector, or of each block
  uint64_t slice_elements = 0;
  uint32_t channels = 1;
  uint32_t chunks = 0;         // of a vector; 0: blocks
  GpuBlocks input;
  GpuBlocks output;
  uint32_t rank = 0;
  uint32_t ranks = 1;
  GpuReduceOp op = GpuReduceOp::kSum;
  uint32_t divisor = 0;        // > 0: finished results are divided by it
  uint32_t lends = 0;          // 1: peers may read this rank's buffers
  uint32_t grows = 0;          // 1: partial results are float32
  GpuRank of[kMostGpus];
};
static_assert(sizeof(ProgramArgs) <= 4096);

}  // namespace tutti::cuda
