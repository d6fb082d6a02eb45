// This host's network interfaces, as far as TCP needs them.
#pragma once

#include <string>
#include <vector>

#include "transports/common/tcp_host.h"

namespace tutti {

struct LocalAddress {
  std::string interface;       // "eth0"
  uint32_t index = 0;          // its number, the scope of link-local addresses
  TcpAddress address;          // port 0
  int64_t speed_mbps = 0;      // 0: unknown
};

// The addresses of all interfaces that are up, best first: by speed, loopback last. With `wanted`, the name of an
// interface or one address, only those; none is an error that names what there is.
Result<std::vector<LocalAddress>> local_addresses(const std::string& wanted);

}  // namespace tutti
