#include "planner/rates.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "topology/caches.h"

namespace tutti {

uint64_t ns_for(uint64_t bytes, uint64_t bytes_per_s) {
  unsigned __int128 ns = static_cast<unsigned __int128>(bytes) * 1'000'000'000 / std::max<uint64_t>(1, bytes_per_s);
  return ns > UINT64_MAX / 16 ? UINT64_MAX / 16 : static_cast<uint64_t>(ns);
}

uint64_t share_of(uint64_t whole, uint64_t part, uint64_t of) {
  unsigned __int128 share = static_cast<unsigned __int128>(whole) * part / of;
  return static_cast<uint64_t>(std::clamp<unsigned __int128>(share, 1, UINT64_MAX / 16));
}

uint64_t rate_without(uint64_t whole, uint64_t part) {
  if (whole >= part) return UINT64_MAX / 16;
  return share_of(whole, part, part - whole);
}

uint64_t rate_with(uint64_t one, uint64_t other) { return share_of(one, other, saturating_add(one, other)); }

uint64_t rate_between(uint64_t usual, uint64_t large, uint64_t block_bytes) {
  using Wide = unsigned __int128;
  constexpr uint64_t kRange = kLargeTcpBlockBytes - kTcpBlockBytes;
  uint64_t over = std::clamp(block_bytes, kTcpBlockBytes, kLargeTcpBlockBytes) - kTcpBlockBytes;
  auto time = [](uint64_t part, uint64_t rate) { return (Wide{part} << 64) / std::max<uint64_t>(1, rate); };
  Wide sum = std::max<Wide>(1, time(kRange - over, usual) + time(over, large));
  return static_cast<uint64_t>(std::clamp<Wide>((Wide{kRange} << 64) / sum, 1, UINT64_MAX / 16));
}

uint64_t Residence::rate(uint64_t l2_rate, uint64_t last_level_rate, uint64_t memory_rate) const {
  using Wide = unsigned __int128;
  auto time = [](uint64_t part, uint64_t rate) { return (Wide{part} << 64) / std::max<uint64_t>(1, rate); };
  Wide sum = time(l2, l2_rate) + time(last_level, last_level_rate) + time(memory, memory_rate);
  return static_cast<uint64_t>(std::clamp<Wide>((Wide{kWhole} << 64) / sum, 1, UINT64_MAX / 16));
}

Residence residence_of(const TopologyHost& host, const Footprint& footprint) {
  using Wide = unsigned __int128;
  // Of a cache that has nothing left of `lost` times its size.
  auto part = [](uint64_t cache_bytes, Wide touched, unsigned lost) {
    constexpr Wide kWhole = Residence::kWhole;
    Wide held = std::min(kWhole, Wide{cache_bytes} * kWhole / std::max<Wide>(1, touched));
    return static_cast<uint64_t>((std::max(lost * held, kWhole) - kWhole) / (lost - 1));
  };
  const Cache* last = last_level(host.inventory);
  uint64_t l2_bytes = cache_bytes_per_cpu(host.inventory);
  // Of a last level of hundreds of MiB, which other machines of the socket use too, no more is counted on than what
  // calibration of memory has touched.
  constexpr uint64_t kMostBytes = 128 << 20;
  uint64_t last_bytes = std::max(l2_bytes, last == nullptr ? 0 : std::min(last->size_bytes, kMostBytes));
  uint64_t in_one = bytes_in_fullest_cache(host, footprint.all_bytes, footprint.most_bytes);
  Residence found;
  // Ranks that take turns have one core's cache together.
  uint64_t cpus = host.inventory.cpu.usable(), ranks = std::max<uint64_t>(1, host.ranks.size());
  uint64_t in_l2 = std::min(saturating_mul(footprint.most_bytes, ceil_div(ranks, cpus)), footprint.all_bytes);
  found.l2 = part(l2_bytes, Wide{in_l2} * 3 / 2, 2);
  found.last_level = std::max(part(last_bytes, Wide{in_one} * (takes_turns(host) ? 6 : 5) / 4, 3), found.l2) - found.l2;
  found.memory = Residence::kWhole - found.l2 - found.last_level;
  return found;
}

}  // namespace tutti
