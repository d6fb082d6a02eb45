#include "topology/network.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace tutti {

const Nic* main_nic(const Inventory& inventory) {
  auto rank_of = [](const Nic& nic) { return std::tuple(!nic.pci_address.empty(), nic.speed_mbps); };
  const Nic* best = nullptr;
  for (const Nic& nic : inventory.nics) {
    if (!nic.up || nic.loopback || nic.addresses.empty()) continue;
    if (best == nullptr || rank_of(nic) > rank_of(*best)) best = &nic;
  }
  return best;
}

Figure network_latency_ns(const Inventory&) {
  return {10'000, Origin::kDefault};  // two NICs, their interrupts and one switch of a data centre
}

Figure network_bytes_per_s(const Inventory& inventory) {
  constexpr uint64_t kUnknownSpeedMbps = 10'000;
  // 10^6 bits of the wire carry 117.5 kB of payload: Ethernet, IP and TCP headers take 6% at an MTU of 1500.
  constexpr uint64_t kPayloadBytesPerMbit = 117'500;
  const Nic* nic = main_nic(inventory);
  if (nic == nullptr || nic->speed_mbps == 0) return {kUnknownSpeedMbps * kPayloadBytesPerMbit, Origin::kDefault};
  return {nic->speed_mbps * kPayloadBytesPerMbit, Origin::kSpec};
}

bool is_big_endian(std::string_view architecture) {
  constexpr std::array<std::string_view, 9> kBigEndian = {"s390",   "s390x", "ppc",     "ppc64",     "mips",
                                                          "mips64", "sparc", "sparc64", "aarch64_be"};
  return std::find(kBigEndian.begin(), kBigEndian.end(), architecture) != kBigEndian.end();
}

}  // namespace tutti
