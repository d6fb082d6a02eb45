#include "planner/shape.h"

#include <algorithm>

#include "plan/partial.h"

namespace tutti {
namespace {

constexpr uint64_t kMappedSliceBytes = 64 * 1024;   // with its copies it stays in a core's L2
constexpr uint64_t kSocketSliceBytes = 128 * 1024;  // amortizes a system call, and the next one fills while it travels
constexpr uint64_t kSmallestSliceBytes = 16 * 1024;
constexpr uint64_t kOverlap = 4;  // so many slices per chunk where the chunk is large enough
constexpr int kMostAllPairsRanks = 128;

// `growth`: of partial results, for which a slot needs room too.
uint64_t slice_bytes_for(uint64_t chunk_bytes, uint32_t growth, const Topology& topology, const Tuning& tuning) {
  uint64_t most = std::max<uint64_t>(64, tuning.max_slice_bytes / growth / 64 * 64);
  if (tuning.slice_bytes > 0) return std::clamp<uint64_t>(ceil_div(tuning.slice_bytes, 64) * 64, 64, most);
  uint64_t usual = all_mapped(topology) ? kMappedSliceBytes : kSocketSliceBytes;
  uint64_t overlapping = ceil_div(ceil_div(chunk_bytes, kOverlap), 64) * 64;
  return std::min(std::clamp(overlapping, kSmallestSliceBytes, usual), most);
}

}  // namespace

uint32_t growth_of_partial_results(const Request& request) {
  return partial_growth(request.collective, request.datatype, request.op);
}

bool all_mapped(const Topology& topology) { return topology.hosts.size() == 1 && topology.forced_transport != "tcp"; }

PlanShape basic_shape(std::string_view algorithm, const Topology& topology, const Request& request,
                      const Tuning& tuning, int chunks, int channels) {
  PlanShape shape;
  shape.algorithm = algorithm;
  shape.collective = request.collective;
  shape.nranks = topology.nranks();
  shape.root = request.root;
  shape.channels = std::clamp(tuning.channels > 0 ? tuning.channels : channels, 1, kMaxPlanChannels);
  shape.chunks = chunks;
  uint64_t chunk_bytes = ceil_div(ceil_div(request.size_bytes(), shape.channels), chunks);
  shape.slice_bytes = slice_bytes_for(chunk_bytes, growth_of_partial_results(request), topology, tuning);
  return shape;
}

std::string admit_all_pairs(const Topology& topology) {
  if (topology.nranks() <= kMostAllPairsRanks) return "";
  return fmt::format("every rank would hold a link to each of the other {} ranks; the most is {}",
                     topology.nranks() - 1, kMostAllPairsRanks - 1);
}

}  // namespace tutti
