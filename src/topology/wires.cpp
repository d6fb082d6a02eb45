#include "topology/wires.h"

#include <algorithm>
#include <array>

namespace tutti {
namespace {

constexpr std::array<int, kLatestPcieGeneration> kMegaTransfersPerS = {2500,   5000,   8000,   16'000,
                                                                       32'000, 64'000, 128'000};

}  // namespace

int pcie_generation(int mega_transfers_per_s) {
  auto found = std::find(kMegaTransfersPerS.begin(), kMegaTransfersPerS.end(), mega_transfers_per_s);
  return found == kMegaTransfersPerS.end() ? 0 : static_cast<int>(found - kMegaTransfersPerS.begin()) + 1;
}

Figure pcie_bytes_per_s(int generation, int lanes) {
  if (generation < 1 || generation > kLatestPcieGeneration || lanes < 1 || lanes > kMostPcieLanes) return {};
  struct Coding {
    uint64_t data, of;
  };
  constexpr Coding kByTens = {8, 10}, kByBlocks = {128, 130}, kByFlits = {242, 256};
  Coding coding = generation < 3 ? kByTens : generation < 6 ? kByBlocks : kByFlits;
  constexpr uint64_t kPayload = 256, kPacket = 280;
  uint64_t bytes_per_s = uint64_t{1'000'000} * kMegaTransfersPerS[generation - 1] * lanes / 8;
  return {bytes_per_s * coding.data / coding.of * kPayload / kPacket, Origin::kSpec};
}

Figure nvlink_bytes_per_s(int compute_capability) {
  uint64_t mbytes_per_s = 0;
  switch (compute_capability) {
    case 60: mbytes_per_s = 20'000; break;
    case 70:
    case 80:
    case 90: mbytes_per_s = 25'000; break;
    case 86: mbytes_per_s = 14'000; break;
    default: mbytes_per_s = compute_capability >= 100 ? 50'000 : 0;
  }
  return mbytes_per_s == 0 ? Figure() : Figure{mbytes_per_s * 1'000'000 * 16 / 17, Origin::kSpec};
}

Figure gpu_memory_bytes_per_s(int compute_capability) {
  switch (compute_capability) {
    case 60: return {732'000'000'000, Origin::kSpec};    // P100
    case 70: return {900'000'000'000, Origin::kSpec};    // V100
    case 80: return {1'555'000'000'000, Origin::kSpec};  // A100, 40 GB
    case 90: return {2'000'000'000'000, Origin::kSpec};  // H100 for PCIe
    case 100: return {8'000'000'000'000, Origin::kSpec}; // B200
    default: return {1'000'000'000'000, Origin::kDefault};
  }
}

}  // namespace tutti
