// Where a process listens, and which host it is on: plain values.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "bootstrap/wire.h"

namespace tutti::bootstrap {

// An IPv4 or IPv6 address with a port, or the name of an abstract unix socket.
struct Endpoint {
  enum class Family : uint8_t { kUnix = 0, kIpv4 = 4, kIpv6 = 6 };

  Family family = Family::kIpv4;
  uint16_t port = 0;
  std::array<std::byte, 16> address{};  // IPv4: the first four bytes
  std::string name;                     // unix only, without the leading zero byte

  static Endpoint unix_socket(std::string name);
  // `text` is "10.0.0.1" or "fe80::1".
  static Result<Endpoint> ip(const std::string& text, uint16_t port);
  static Endpoint of(const sockaddr* address);

  bool is_unix() const { return family == Family::kUnix; }
  // The length to give to bind or connect.
  socklen_t to_sockaddr(sockaddr_storage& out) const;
  // "10.0.0.1:4321", "[::1]:4321", "unix:@name".
  std::string text() const;

  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// Two processes with equal identities reach each other through abstract unix sockets.
struct HostIdentity {
  std::array<std::byte, 16> boot_id{};
  uint64_t network_namespace = 0;
  uint32_t user = 0;

  // Of this process.
  static HostIdentity here();
  uint64_t hash() const;
  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

// "node7": for messages.
std::string host_name();

// The addresses of this host that others may reach, best first: IPv4 before IPv6, interfaces with a route outside
// before bridges of containers, loopback only when there is nothing else. `interface` limits them to one interface's
// name or to one address; naming what does not exist is an error that lists what does.
Result<std::vector<Endpoint>> local_addresses(const std::string& interface, uint16_t port);

// "host:port", "[v6]:port" -> every address that the name stands for. Blocks while names are resolved.
Result<std::vector<Endpoint>> resolve(const std::string& host_and_port);

}  // namespace tutti::bootstrap
