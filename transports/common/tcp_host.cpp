#include "transports/common/tcp_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "transports/common/bytes.h"

namespace tutti {
namespace {

constexpr uint32_t kMagic = 0x70637474;  // "ttcp"
constexpr uint16_t kVersion = 1;
constexpr size_t kHeadBytes = 16;
constexpr size_t kEntryBytes = 20;
constexpr uint8_t kLoopbackFlag = 1;
constexpr uint8_t kLinkLocalFlag = 2;

}  // namespace

Blob encode(const TcpHost& host) {
  size_t count = std::min(host.addresses.size(), kMostTcpAddresses);
  Blob blob(kHeadBytes + count * kEntryBytes);
  FixedWriter writer(blob);
  writer.put(kMagic).put(kVersion).put(static_cast<uint16_t>(count)).put(host.host);
  for (const TcpAddress& address : std::span(host.addresses).first(count)) {
    auto flags =
        static_cast<uint8_t>((address.loopback ? kLoopbackFlag : 0) | (address.link_local ? kLinkLocalFlag : 0));
    writer.put(static_cast<uint8_t>(address.family))
        .put(flags)
        .put(address.port)
        .put(std::span<const std::byte>(address.bytes));
  }
  return blob;
}

Result<TcpHost> parse_tcp_host(std::span<const std::byte> bytes) {
  auto bad = [] { return error(Code::kRemote, "the peer's address is not one of the tcp transport"); };
  if (bytes.size() < kHeadBytes) return bad();
  FixedReader reader(bytes);
  if (reader.get<uint32_t>() != kMagic) return bad();
  if (reader.get<uint16_t>() != kVersion) return error(Code::kRemote, "the peer's tcp address has another version");
  size_t count = reader.get<uint16_t>();
  if (count > kMostTcpAddresses || bytes.size() != kHeadBytes + count * kEntryBytes) return bad();
  TcpHost host{.host = reader.get<uint64_t>(), .addresses = {}};
  for (size_t i = 0; i < count; ++i) {
    TcpAddress address;
    auto family = reader.get<uint8_t>();
    if (family != 4 && family != 6) return bad();
    address.family = static_cast<TcpAddress::Family>(family);
    auto flags = reader.get<uint8_t>();
    address.loopback = (flags & kLoopbackFlag) != 0;
    address.link_local = (flags & kLinkLocalFlag) != 0;
    address.port = reader.get<uint16_t>();
    reader.get(address.bytes);
    host.addresses.push_back(address);
  }
  return host;
}

SocketAddress socket_address(const TcpAddress& address, uint32_t scope) {
  SocketAddress result;
  if (address.family == TcpAddress::Family::kIpv4) {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(address.port);
    std::memcpy(&ipv4.sin_addr, address.bytes.data(), sizeof ipv4.sin_addr);
    std::memcpy(&result.storage, &ipv4, sizeof ipv4);
    result.size_bytes = sizeof ipv4;
  } else {
    sockaddr_in6 ipv6{};
    ipv6.sin6_family = AF_INET6;
    ipv6.sin6_port = htons(address.port);
    ipv6.sin6_scope_id = address.link_local ? scope : 0;
    std::memcpy(&ipv6.sin6_addr, address.bytes.data(), sizeof ipv6.sin6_addr);
    std::memcpy(&result.storage, &ipv6, sizeof ipv6);
    result.size_bytes = sizeof ipv6;
  }
  return result;
}

TcpAddress tcp_address(const sockaddr* address) {
  TcpAddress result;
  if (address->sa_family == AF_INET) {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, address, sizeof ipv4);
    std::memcpy(result.bytes.data(), &ipv4.sin_addr, sizeof ipv4.sin_addr);
    result.port = ntohs(ipv4.sin_port);
    result.link_local = (ntohl(ipv4.sin_addr.s_addr) >> 16) == 0xa9fe;  // 169.254/16
  } else {
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, address, sizeof ipv6);
    result.family = TcpAddress::Family::kIpv6;
    std::memcpy(result.bytes.data(), &ipv6.sin6_addr, sizeof ipv6.sin6_addr);
    result.port = ntohs(ipv6.sin6_port);
    result.link_local = IN6_IS_ADDR_LINKLOCAL(&ipv6.sin6_addr);
  }
  return result;
}

std::string to_text(const TcpAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  bool ipv4 = address.family == TcpAddress::Family::kIpv4;
  ::inet_ntop(ipv4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof text);
  return ipv4 ? fmt::format("{}:{}", text, address.port) : fmt::format("[{}]:{}", text, address.port);
}

uint64_t this_host() {
  std::string identity;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), identity);
  struct stat space {};
  if (::stat("/proc/self/ns/net", &space) == 0) identity += fmt::format(" {}:{}", space.st_dev, space.st_ino);
  // FNV-1a. A clash would only add addresses that the handshake then does not prove.
  uint64_t number = 0xcbf29ce484222325u;
  for (unsigned char c : identity) number = (number ^ c) * 0x100000001b3u;
  return number;
}

}  // namespace tutti
