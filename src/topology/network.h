// What is known about a host's way to other hosts before anything was measured.
#pragma once

#include <string_view>

#include "topology/inventory.h"

namespace tutti {

class Topology;

// The interface that traffic to other hosts is expected to use: up, with an address (where addresses are known) or for
// RDMA, physical before virtual, then the fastest, then the first. nullptr: none. Borrowed from `inventory`.
const Nic* main_nic(const Inventory& inventory);

Figure network_latency_ns(const Inventory& inventory);
Figure network_bytes_per_s(const Inventory& inventory);
Figure nic_bytes_per_s(const Nic& nic);
// What the hosts of a fabric send together to those of others: the least that one of them says, else half of what their
// devices do.
Figure fabric_bytes_per_s(const Topology& topology, std::string_view fabric);

bool is_big_endian(std::string_view architecture);

}  // namespace tutti
