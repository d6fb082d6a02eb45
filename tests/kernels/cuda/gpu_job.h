// GpuJob: ranks that each have a GPU of their own, and make calls by any Plan; what they must receive comes from the
// host's plain loop. For tests.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "executor/gpu_call.h"
#include "kernels/cases.h"
#include "planner/planner.h"

namespace tutti::test {

struct GpuCase {
  const Algorithm* algorithm = nullptr;
  Datatype datatype = TUTTI_FLOAT32;
  ReduceOp op = TUTTI_SUM;
  int root = -1;
  int channels = 1;
  uint64_t slice_bytes = 256;
  uint64_t count = 0;
  std::vector<uint8_t> in_place;  // by rank: asked for
  bool is_misaligned = false;

  std::string text() const;
};

// A case of the algorithm on so many ranks.
GpuCase draw_gpu_case(const Algorithm& algorithm, int nranks, std::mt19937_64& random);

class GpuJob {
 public:
  static constexpr uint32_t kMostChannels = 4;
  static constexpr uint64_t kSlotBytes = 1024;

  explicit GpuJob(int nranks);

  struct Memory {
    uint64_t address = 0;
    size_t size_bytes = 0;
  };
  // Runs the kernel's launches, one for each rank. `memory`: all that they touch.
  using Launch =
      std::function<std::string(const std::string& kernel, std::span<cuda::ProgramArgs>, std::span<const Memory>)>;
  // Makes a call. "" when all have received what they must and nothing else was touched.
  std::string run(const GpuCase& which, std::mt19937_64& random, const Launch& launch);

 private:
  int nranks_;
  cuda::GpuArena arena_;
  std::vector<std::vector<uint64_t>> arenas_;  // by rank
};

}  // namespace tutti::test
