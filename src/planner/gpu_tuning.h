// Collectives on device memory that the GPUs of a host do among themselves, a rank on each (docs/gpu.md): what plans of
// these are made by, in communicators and in `tutti plan`.
#pragma once

#include "planner/planner.h"

namespace tutti {

inline constexpr int kMostPlannedGpus = 16;
inline constexpr int kMostPlannedGpuChannels = 32;        // blocks of a launch
inline constexpr uint64_t kGpuSlotBytes = 64 * 1024;

// Whether the ranks' GPUs do their calls alone, if they reach each other's memory: each rank has one of its own, and
// they are of one host.
bool are_calls_of_gpus(const Topology& topology, Collective collective);

// What was measured of calls of hosts and wished for these, as far as it means something here.
Tuning tuning_for_gpus(Tuning tuning, const Request& request);

}  // namespace tutti
