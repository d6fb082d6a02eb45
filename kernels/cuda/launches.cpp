#include "kernels/cuda/launches.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tutti::cuda {

std::string fused_kernel_name(Datatype datatype, ReduceOp op, uint32_t sources) {
  if (sources == 1) return "tutti_fused_bits_copy";
  if (is_bitwise(op)) return fmt::format("tutti_fused_bits_{}", name_of(op));
  ReduceOp combined = op == TUTTI_AVG ? TUTTI_SUM : op;
  bool is_common = datatype == TUTTI_FLOAT32 || datatype == TUTTI_FLOAT16 || datatype == TUTTI_BFLOAT16;
  bool is_held = sources == 2 || sources == 4 || sources == 8;
  std::string name = fmt::format("tutti_fused_{}_{}", name_of(datatype), name_of(combined));
  return combined == TUTTI_SUM && is_common && is_held ? fmt::format("{}_of_{}", name, sources) : name;
}

Launches::Launches(Datatype datatype, ReduceOp op, uint32_t sources)
    : kernel_(fused_kernel_name(datatype, op, sources)),
      element_bytes_(size_of(datatype)),
      counted_bytes_(sources == 1 || is_bitwise(op) ? 1 : element_bytes_),
      divisor_(op == TUTTI_AVG && sources > 1 ? sources : 0) {}

void Launches::add(uint64_t count, std::span<const uint64_t> sources, std::span<const uint64_t> destinations) {
  if (count == 0 || destinations.empty()) return;
  auto needed = static_cast<uint32_t>(sources.size() + destinations.size());
  TUTTI_CHECK(!sources.empty() && sources.size() <= kMostSources && needed <= kMostAddresses);
  bool is_full = launches_.empty() || launches_.back().job_count == kMostJobs || addresses_ + needed > kMostAddresses;
  if (is_full) {
    launches_.emplace_back().divisor = divisor_;
    addresses_ = 0;
  }
  FusedArgs& args = launches_.back();
  Job& job = args.jobs[args.job_count++];
  job = {.count = count * (element_bytes_ / counted_bytes_), .first_tile = args.tiles};
  auto append = [&](std::span<const uint64_t> addresses) {
    std::copy(addresses.begin(), addresses.end(), args.addresses + addresses_);
    uint32_t first = addresses_;
    addresses_ += static_cast<uint32_t>(addresses.size());
    return first;
  };
  job.sources = static_cast<uint32_t>(sources.size());
  job.first_source = append(sources);
  job.destinations = static_cast<uint32_t>(destinations.size());
  job.first_destination = append(destinations);
  args.tiles += tiles_of(count * element_bytes_);
}

}  // namespace tutti::cuda
