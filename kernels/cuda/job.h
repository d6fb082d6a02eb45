// What a launch of the fused kernel is told. Plain data that the host writes and the GPU reads.
#pragma once

#include <cstdint>

namespace tutti::cuda {

constexpr uint32_t kMostSources = 64;
constexpr uint32_t kTileBytes = 32 * 1024;  // what a block of threads takes at once
constexpr uint32_t kThreads = 512;          // of a block

// A run of elements: the sources are combined by the tree of kernels.h, and the result goes to all destinations. A
// destination may be equal to a source of this job; other overlaps, within it or with other jobs, are not allowed.
struct Job {
  uint64_t count = 0;          // elements
  uint64_t first_tile = 0;     // of this job, among those of all jobs
  uint32_t first_source = 0;   // among the addresses
  uint32_t sources = 0;        // 1 to kMostSources
  uint32_t first_destination = 0;
  uint32_t destinations = 0;   // at least 1
};

constexpr uint32_t kMostJobs = 64;        // of a launch
constexpr uint32_t kMostAddresses = 240;

// All of it travels with the launch, so that nothing has to stay until the GPU has read it: 4 KiB at most.
struct FusedArgs {
  const uint32_t* cancelled = nullptr;  // not null: the launch does nothing where this is not 0
  uint64_t tiles = 0;                   // of all jobs
  uint32_t job_count = 0;
  uint32_t divisor = 0;                 // > 0: the results are divided by it
  Job jobs[kMostJobs];                  // in the order of their first tiles
  uint64_t addresses[kMostAddresses] = {};
};
static_assert(sizeof(FusedArgs) <= 4096);

// Where one thread of a launch is.
struct Place {
  uint32_t block = 0;
  uint32_t blocks = 1;
  uint32_t thread = 0;
  uint32_t threads = 1;
};

// How many tiles a job of so many bytes has, wherever its buffers begin.
constexpr uint64_t tiles_of(uint64_t size_bytes) { return (size_bytes + 15 + kTileBytes - 1) / kTileBytes; }

}  // namespace tutti::cuda
