// Texts of the kernel about PCI, which NCCL repeats.
#pragma once

#include <string_view>

namespace tutti {

// "0000:00:03.0", with more digits of the domain where it has them.
bool is_pci_address(std::string_view text);

// Of "16.0 GT/s PCIe", "8 GT/s", "2.5 GT/s"; 0: it names no speed of PCI Express.
int parse_pcie_generation(std::string_view link_speed);

}  // namespace tutti
