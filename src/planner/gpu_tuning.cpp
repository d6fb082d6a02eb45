#include "planner/gpu_tuning.h"

#include <algorithm>
#include <set>

namespace tutti {

// Assumed, not measured: less than that is not worth another block of threads.
static constexpr uint64_t kBytesPerChannel = 64 * 1024;

bool are_calls_of_gpus(const Topology& topology, Collective collective) {
  std::set<int> gpus;
  for (const TopologyRank& rank : topology.ranks) {
    if (rank.gpu >= 0) gpus.insert(rank.gpu);
  }
  bool has_one_each = gpus.size() == topology.ranks.size() && gpus.size() <= kMostPlannedGpus;
  return has_one_each && topology.hosts.size() == 1 && topology.forced_transport.empty() && !has_counts(collective);
}

Tuning tuning_for_gpus(Tuning tuning, const Request& request) {
  tuning.measured.clear();
  tuning.max_slice_bytes = kGpuSlotBytes;
  uint64_t by_size = size_class_bytes(request.size_bytes()) / kBytesPerChannel;
  if (tuning.channels == 0) {
    tuning.channels = static_cast<int>(std::clamp<uint64_t>(by_size, 1, kMostPlannedGpuChannels));
  }
  tuning.channels = std::min(tuning.channels, kMostPlannedGpuChannels);
  return tuning;
}

}  // namespace tutti
