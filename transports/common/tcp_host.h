// The addresses that a rank offers to its peers, as a blob. Pure functions over bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "transports/common/dialer.h"
#include "transports/transport.h"

namespace tutti {

struct TcpAddress {
  enum class Family : uint8_t { kIpv4 = 4, kIpv6 = 6 };
  Family family = Family::kIpv4;
  bool loopback = false;       // leads to this host only
  bool link_local = false;     // needs the caller's interface beside it
  uint16_t port = 0;
  std::array<std::byte, 16> bytes{};  // in network order, an IPv4 address in the first four
  friend bool operator==(const TcpAddress&, const TcpAddress&) = default;
};

struct TcpHost {
  uint64_t host = 0;           // equal for ranks that share a kernel and a network namespace
  std::vector<TcpAddress> addresses;  // in order of preference
  friend bool operator==(const TcpHost&, const TcpHost&) = default;
};

inline constexpr size_t kMostTcpAddresses = 128;

Blob encode(const TcpHost& host);
Result<TcpHost> parse_tcp_host(std::span<const std::byte> bytes);

// `scope` is the caller's interface index, for link-local addresses only.
SocketAddress socket_address(const TcpAddress& address, uint32_t scope);
// IPv4 and IPv6 addresses only. The port is the socket address's.
TcpAddress tcp_address(const sockaddr* address);
std::string to_text(const TcpAddress& address);  // "10.0.0.2:4711", "[fe80::1]:4711"

// A number for this kernel and network namespace.
uint64_t this_host();

}  // namespace tutti
