// What the wires between devices carry, by their generation: figures of their specifications.
#pragma once

#include "topology/inventory.h"

namespace tutti {

inline constexpr int kLatestPcieGeneration = 7;
inline constexpr int kMostPcieLanes = 32;
inline constexpr int kMostNvLinks = 72;

// Payload in one direction. Value 0 where the generation or the number of lanes is unknown.
// Source: PCI Express base specification: 2.5, 5, 8, 16, 32, 64, 128 GT/s a lane; 8 of 10 bits are data, from the third
// generation on 128 of 130, from the sixth on 242 of 256 bytes of a flit. Of 280 bytes 256 are payload: the usual
// largest packet with its header, checksum and framing.
Figure pcie_bytes_per_s(int generation, int lanes);

// The generation that runs at so many million transfers per second; 0: none does.
int pcie_generation(int mega_transfers_per_s);

// Of one link of a GPU of this compute capability, payload in one direction; 0 where there is no such GPU with NVLink.
// Source: NVIDIA's data sheets: 20 GB/s (6.0), 25 GB/s (7.0, 8.0, 9.0), 14 GB/s (8.6), 50 GB/s (10.0 and later). Of 17
// flits of 16 bytes one is a header where packets have 256 bytes.
Figure nvlink_bytes_per_s(int compute_capability);

// Of the GPU's own memory: what data sheets say of the slowest of that compute capability. Unknown: 1 TB/s (default).
Figure gpu_memory_bytes_per_s(int compute_capability);

}  // namespace tutti
