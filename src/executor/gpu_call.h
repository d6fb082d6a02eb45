// A call that GPUs make among themselves: the rank's part of its Plan as its GPU interprets it (kernels/cuda), and what
// a launch is told. One encoded Program serves every call of its size class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "kernels/cuda/gpu_program.h"
#include "plan/plan.h"

namespace tutti {

// The bytes of a cuda::GpuProgram, for memory with the alignment of uint64_t. `takes_output`: messages into the rank's
// output are stored there by those who send them; else the rank takes them out of its arena. Errors: the Plan is larger
// than what the interpreter has room for; the sentence names the bound.
Result<std::vector<std::byte>> encode_for_gpu(const Plan& plan, int rank, bool takes_output);

// What all ranks know of a call. No counts by rank, and no operation of the program.
struct GpuCall {
  const PlanShape* shape = nullptr;
  Datatype datatype = TUTTI_FLOAT32;
  ReduceOp op = TUTTI_SUM;
  uint64_t count = 0;                  // as the API has it: of the vector, or of each block
  std::span<const uint8_t> in_place;   // by rank
  cuda::GpuArena arena;
};

// "tutti_program_float32"
std::string gpu_kernel_name(const GpuCall& call);
// Whether messages into the output of such a rank are stored there by those who send them.
bool takes_output(const PlanShape& shape, bool in_place);
// For `rank`; without addresses.
cuda::ProgramArgs gpu_args(const GpuCall& call, int rank);

}  // namespace tutti
