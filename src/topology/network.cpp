#include "topology/network.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "topology/topology.h"

namespace tutti {
namespace {

// Every host that tells its interfaces' addresses has a loopback interface among them.
bool addresses_are_known(const Inventory& inventory) {
  return std::any_of(inventory.nics.begin(), inventory.nics.end(),
                     [](const Nic& nic) { return nic.loopback || !nic.addresses.empty(); });
}

}  // namespace

const Nic* main_nic(const Inventory& inventory) {
  auto rank_of = [](const Nic& nic) { return std::tuple(!nic.pci_address.empty(), nic.speed_mbps); };
  const Nic* best = nullptr;
  bool needs_address = addresses_are_known(inventory);
  for (const Nic& nic : inventory.nics) {
    if (!nic.up || nic.loopback) continue;
    if (needs_address && nic.addresses.empty() && !nic.rdma) continue;
    if (best == nullptr || rank_of(nic) > rank_of(*best)) best = &nic;
  }
  return best;
}

Figure network_latency_ns(const Inventory&) {
  return {10'000, Origin::kDefault};  // two NICs, their interrupts and one switch of a data centre
}

Figure network_bytes_per_s(const Inventory& inventory) {
  const Nic* nic = main_nic(inventory);
  return nic_bytes_per_s(nic == nullptr ? Nic() : *nic);
}

Figure nic_bytes_per_s(const Nic& nic) {
  constexpr uint64_t kUnknownSpeedMbps = 10'000;
  // 10^6 bits of the wire carry 117.5 kB of payload: Ethernet, IP and TCP headers take 6% at an MTU of 1500.
  constexpr uint64_t kPayloadBytesPerMbit = 117'500;
  if (nic.speed_mbps == 0) return {kUnknownSpeedMbps * kPayloadBytesPerMbit, Origin::kDefault};
  return {nic.speed_mbps * kPayloadBytesPerMbit, Origin::kSpec};
}

Figure fabric_bytes_per_s(const Topology& topology, std::string_view fabric) {
  constexpr uint64_t kAssumedShare = 2;
  auto sum = [](uint64_t a, uint64_t b) { return std::min(kMostOfAFigure, a + std::min(b, kMostOfAFigure)); };
  Figure said;
  uint64_t of_devices = 0;
  for (const TopologyHost& host : topology.hosts) {
    if (host.inventory.fabric != fabric) continue;
    const Figure& figure = host.inventory.fabric_bytes_per_s;
    if (figure.value != 0 && (said.value == 0 || figure.value < said.value)) said = figure;
    uint64_t by_rdma = 0;
    for (const Nic& nic : host.inventory.nics) {
      if (nic.up && nic.rdma) by_rdma = sum(by_rdma, nic_bytes_per_s(nic).value);
    }
    of_devices = sum(of_devices, std::max(by_rdma, host.network_bytes_per_s.value) / kAssumedShare);
  }
  return said.value != 0 ? said : Figure{of_devices, Origin::kDefault};
}

bool is_big_endian(std::string_view architecture) {
  constexpr std::array<std::string_view, 9> kBigEndian = {"s390",   "s390x", "ppc",     "ppc64",     "mips",
                                                          "mips64", "sparc", "sparc64", "aarch64_be"};
  return std::find(kBigEndian.begin(), kBigEndian.end(), architecture) != kBigEndian.end();
}

}  // namespace tutti
