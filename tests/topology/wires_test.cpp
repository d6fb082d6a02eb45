#include "topology/wires.h"

#include <catch2/catch.hpp>

#include "topology/pci.h"

using namespace tutti;

TEST_CASE("what PCI Express carries is what its specification says, less packets' headers") {
  // By hand: 8 GT/s * 16 lanes / 8 bits = 16 GB/s; * 128/130 = 15.7538 GB/s; * 256/280 = 14.4035 GB/s.
  CHECK(pcie_bytes_per_s(3, 16) == Figure{14'403'516'482, Origin::kSpec});
  CHECK(pcie_bytes_per_s(4, 16) == Figure{28'807'032'966, Origin::kSpec});
  CHECK(pcie_bytes_per_s(5, 16) == Figure{57'614'065'933, Origin::kSpec});
  CHECK(pcie_bytes_per_s(1, 1) == Figure{228'571'428, Origin::kSpec});  // 2.5 GT/s / 8 * 8/10 * 256/280
  CHECK(pcie_bytes_per_s(6, 16) == Figure{110'628'571'428, Origin::kSpec});  // 128 GB/s * 242/256 * 256/280
}

TEST_CASE("a link of which something is unknown has no figure") {
  for (auto [generation, lanes] : {std::pair(0, 16), std::pair(4, 0), std::pair(8, 16), std::pair(4, 33)}) {
    CAPTURE(generation, lanes);
    CHECK(pcie_bytes_per_s(generation, lanes).value == 0);
  }
}

TEST_CASE("link speeds are read as the kernel and NCCL write them") {
  CHECK(parse_pcie_generation("2.5 GT/s PCIe\n") == 1);
  CHECK(parse_pcie_generation("5 GT/s") == 2);
  CHECK(parse_pcie_generation("8.0 GT/s PCIe") == 3);
  CHECK(parse_pcie_generation("16 GT/s") == 4);
  CHECK(parse_pcie_generation("32.0 GT/s PCIe") == 5);
  CHECK(parse_pcie_generation("64.0 GT/s PCIe") == 6);
  for (const char* none : {"", "Unknown", "Unknown speed", "9.0 GT/s", "16.00 GT/s", "-8 GT/s", " GT/s", "1e1 GT/s",
                           "99999999999999999999 GT/s", "8.. GT/s"}) {
    CAPTURE(none);
    CHECK(parse_pcie_generation(none) == 0);
  }
}

TEST_CASE("PCI addresses are told from other texts") {
  for (const char* address : {"0000:00:03.0", "10000:e1:00.1", "fffffff:ff:ff.0"}) CHECK(is_pci_address(address));
  for (const char* other : {"", "pci0000:00", "0000:00:03", "000:00:03.0", "0000:00:03.00", "0000:00:03.g",
                            "123456789:00:03.0", "xyz0000:00:03.0"}) {
    CAPTURE(other);
    CHECK_FALSE(is_pci_address(other));
  }
}

TEST_CASE("eighteen links of the fourth NVLink carry 450 GB/s, of which 16 of 17 flits are payload") {
  CHECK(nvlink_bytes_per_s(90) == Figure{23'529'411'764, Origin::kSpec});
  CHECK(nvlink_bytes_per_s(100).value == 2 * nvlink_bytes_per_s(90).value + 1);
  CHECK(nvlink_bytes_per_s(103) == nvlink_bytes_per_s(100));
  CHECK(nvlink_bytes_per_s(89).value == 0);
}
