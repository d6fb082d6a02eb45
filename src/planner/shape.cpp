#include "planner/shape.h"

#include <algorithm>

#include "plan/partial.h"
#include "topology/caches.h"

namespace tutti {
namespace {

constexpr uint64_t kSmallestSliceBytes = 16 * 1024;
constexpr int kMostAllPairsRanks = 128;
// Of pipelines: slices per chunk where the chunk is large enough, and the largest ones.
constexpr uint64_t kOverlap = 4;
constexpr uint64_t kMappedOverlapBytes = 64 * 1024;
constexpr uint64_t kSocketOverlapBytes = 128 * 1024;

// `growth`: of partial results, for which a slot needs room too.
uint64_t fitting_slice_bytes(uint64_t wanted, uint32_t growth, const Tuning& tuning) {
  uint64_t most = std::max<uint64_t>(64, tuning.max_slice_bytes / growth / 64 * 64);
  if (tuning.slice_bytes > 0) wanted = tuning.slice_bytes;
  return std::clamp<uint64_t>(ceil_div(wanted, 64) * 64, 64, most);
}

// A slice takes a share of a core's second-level cache, so that there is room for the pieces of the two sides, the
// result and what is on its way. Ranks that reduce wait for pieces of all others, a turn of each where they share a
// processor, so among few ranks slices are as large as still stays in the cache. A socket within a host wants slices as
// large as the caches allow: each one less saves both sides a turn. Slices between GPUs are in no processor's cache.
uint64_t cached_slice_bytes(const Topology& topology, Collective collective, const Tuning& tuning) {
  constexpr int kFewRanks = 4;
  bool by_local_sockets = topology.hosts.size() == 1 && topology.forced_transport == "tcp";
  bool reduces_among_few = reduces(collective) && all_mapped(topology) && topology.nranks() <= kFewRanks;
  uint64_t pieces = by_local_sockets ? 2 : reduces_among_few ? 4 : 8;
  uint64_t least = by_local_sockets ? tuning.max_slice_bytes : 256 * 1024;
  for (const TopologyHost& host : topology.hosts) {
    bool all_on_gpus = std::all_of(host.ranks.begin(), host.ranks.end(),
                                   [&](int rank) { return topology.ranks[rank].gpu >= 0; });
    if (all_on_gpus) continue;
    least = std::min(least, share_of_cache(host.inventory, pieces));
  }
  return least;
}

PlanShape shape_without_slices(std::string_view algorithm, const Topology& topology, const Request& request,
                               const Tuning& tuning, int chunks, int least_channels) {
  PlanShape shape;
  shape.algorithm = algorithm;
  shape.collective = request.collective;
  shape.nranks = topology.nranks();
  shape.root = request.root;
  // Where only some ranks know the counts, what the request says is no size.
  bool is_large = request.size_bytes() >= kLeastSharedBytes && !has_counts(request.collective);
  int workers = is_large ? workers_of(topology, tuning) : 1;
  bool may_be_large = request.size_bytes() >= kLeastSharedBytes || has_private_counts(request.collective);
  int lanes = may_be_large ? std::min(topology.rdma_lanes(), kUsualChannels) : 1;
  int usual = std::max({least_channels, workers, lanes});
  shape.channels = std::clamp(tuning.channels > 0 ? tuning.channels : usual, 1, kMaxPlanChannels);
  shape.chunks = chunks;
  return shape;
}

uint64_t chunk_bytes_of(const PlanShape& shape, const Request& request) {
  return ceil_div(ceil_div(request.size_bytes(), shape.channels), shape.chunks);
}

}  // namespace

uint32_t growth_of_partial_results(const Request& request) {
  return partial_growth(request.collective, request.datatype, request.op);
}

int workers_of(const Topology& topology, const Tuning& tuning) {
  if (!all_mapped(topology) || topology.nranks() == 1) return 1;
  if (tuning.workers > 0) return tuning.workers;
  uint64_t least = kUsualChannels;
  for (const TopologyHost& host : topology.hosts) {
    least = std::min(least, host.inventory.cpu.usable() / std::max<uint64_t>(1, host.ranks.size()));
  }
  for (const TopologyRank& rank : topology.ranks) {
    if (!rank.cpus.empty()) least = std::min<uint64_t>(least, rank.cpus.size());
  }
  return static_cast<int>(std::max<uint64_t>(1, least));
}

bool all_mapped(const Topology& topology) {
  return topology.hosts.size() == 1 && !is_by_network_alone(topology);
}

PlanShape basic_shape(std::string_view algorithm, const Topology& topology, const Request& request,
                      const Tuning& tuning, int chunks, int least_channels) {
  PlanShape shape = shape_without_slices(algorithm, topology, request, tuning, chunks, least_channels);
  // What RDMA devices bring from buffer to buffer is in no core's cache, and each slice is a message.
  bool only_moves = !reduces(request.collective) && topology.joined_by_rdma();
  uint64_t usual = only_moves ? tuning.max_slice_bytes : cached_slice_bytes(topology, request.collective, tuning);
  uint64_t wanted = std::min(usual, std::max(kSmallestSliceBytes, chunk_bytes_of(shape, request)));
  shape.slice_bytes = fitting_slice_bytes(wanted, growth_of_partial_results(request), tuning);
  return shape;
}

PlanShape pipelined_shape(std::string_view algorithm, const Topology& topology, const Request& request,
                          const Tuning& tuning, int chunks, int least_channels) {
  PlanShape shape = shape_without_slices(algorithm, topology, request, tuning, chunks, least_channels);
  uint64_t usual = all_mapped(topology) ? kMappedOverlapBytes : kSocketOverlapBytes;
  uint64_t wanted = std::clamp(ceil_div(chunk_bytes_of(shape, request), kOverlap), kSmallestSliceBytes, usual);
  shape.slice_bytes = fitting_slice_bytes(wanted, growth_of_partial_results(request), tuning);
  return shape;
}

std::string admit_all_pairs(const Topology& topology) {
  if (topology.nranks() <= kMostAllPairsRanks) return "";
  return fmt::format("every rank would hold a link to each of the other {} ranks; the most is {}",
                     topology.nranks() - 1, kMostAllPairsRanks - 1);
}

}  // namespace tutti
