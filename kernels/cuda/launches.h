// The launches of the fused kernel that a call takes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/cuda/job.h"

namespace tutti::cuda {

// "tutti_fused_float32_sum_of_4". `op` has no meaning where nothing is combined: with one source, elements are copied.
std::string fused_kernel_name(Datatype datatype, ReduceOp op, uint32_t sources);

// Launches of one kernel, for jobs with equally many sources. A launch that is full is followed by another one.
class Launches {
 public:
  // `sources`: of every job. `op`: TUTTI_AVG divides by their number.
  Launches(Datatype datatype, ReduceOp op, uint32_t sources);

  // One job; nothing for no elements, or no destinations. `count`: elements of the datatype.
  void add(uint64_t count, std::span<const uint64_t> sources, std::span<const uint64_t> destinations);

  const std::string& kernel() const { return kernel_; }
  std::span<FusedArgs> all() { return launches_; }

 private:
  const std::string kernel_;
  const uint64_t element_bytes_;
  const uint64_t counted_bytes_;  // of what the kernel counts
  const uint32_t divisor_;
  uint32_t addresses_ = 0;        // of the last launch
  std::vector<FusedArgs> launches_;
};

}  // namespace tutti::cuda
