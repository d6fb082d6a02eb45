// Program: one rank's part of a Plan on one channel, lowered to flat tables that the interpreter walks. It knows
// neither count nor addresses; those bind at call time, so one Program serves every call of its size class.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.h"

namespace tutti {

enum class OpKind : uint8_t {
  kWait,     // receive the next message of a stream, into the output if the op says so
  kCompute,  // combine sources once; results go to local destinations and to messages
};

struct Operand {
  Space space = Space::kInput;
  int32_t index = 0;  // chunk, temp id, or peer of an arrival
};

// One message that a kCompute sends: the value that the op computes. When that value also lies in a chunk of the
// caller's input or output, `source` says where, so that the message may refer to it instead of carrying it.
struct Send {
  int32_t peer = 0;
  int32_t into = kNoChunk;
  Operand source;  // kInput or kOutput, else meaningless
  bool is_of_input = false;  // by the plan's own step: what it copies from there before may be sent from there, too
};

struct Span {
  uint32_t first = 0;
  uint32_t count = 0;
};

struct Op {
  OpKind kind = OpKind::kCompute;
  uint8_t lag = 0;
  bool finish = false;
  int32_t chunk = kNoChunk;    // that it means; kNoChunk: bare signals, which run once
  int32_t peer = -1;           // kWait
  int32_t into = kNoChunk;     // kWait
  bool release = false;        // kWait: nobody reads the arrival,
  bool is_result = false;      // nor what lies in `into` from then on
  Span sources;                // kCompute: into operands; empty: bare signals
  Span destinations;           // kCompute: into operands
  Span sends;                  // kCompute: into sends
  Span releases;               // kCompute: into peers; their arrivals are read here for the last time
};

struct ProgramSection {
  Span ops;
  uint8_t most_lag = 0;        // of any of them
};

struct Program {
  std::vector<ProgramSection> sections;
  std::vector<Op> ops;
  std::vector<Operand> operands;
  std::vector<Send> sends;
  std::vector<int32_t> releases;
  std::vector<int32_t> peers;  // ascending: all that this rank exchanges messages with
  int temps = 0;               // stored temps are 0 .. temps-1
};

}  // namespace tutti
