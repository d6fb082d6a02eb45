#include "bootstrap/endpoint.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <fstream>

#include "base/fd.h"
#include "bootstrap/crypto.h"

namespace tutti::bootstrap {

Endpoint Endpoint::unix_socket(std::string name) {
  Endpoint endpoint;
  endpoint.family = Family::kUnix;
  endpoint.name = std::move(name);
  return endpoint;
}

Result<Endpoint> Endpoint::ip(const std::string& text, uint16_t port) {
  Endpoint endpoint;
  endpoint.port = port;
  if (inet_pton(AF_INET, text.c_str(), endpoint.address.data()) == 1) return endpoint;
  endpoint.family = Family::kIpv6;
  if (inet_pton(AF_INET6, text.c_str(), endpoint.address.data()) == 1) return endpoint;
  return error(Code::kInvalidArgument, "\"{}\" is not an IPv4 or IPv6 address", text);
}

Endpoint Endpoint::of(const sockaddr* address) {
  Endpoint endpoint;
  if (address->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address);
    endpoint.port = ntohs(in->sin_port);
    std::memcpy(endpoint.address.data(), &in->sin_addr, sizeof(in->sin_addr));
  } else if (address->sa_family == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(address);
    endpoint.port = ntohs(in6->sin6_port);
    if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
      std::memcpy(endpoint.address.data(), in6->sin6_addr.s6_addr + 12, 4);
    } else {
      endpoint.family = Family::kIpv6;
      std::memcpy(endpoint.address.data(), &in6->sin6_addr, sizeof(in6->sin6_addr));
    }
  } else {
    endpoint.family = Family::kUnix;
  }
  return endpoint;
}

socklen_t Endpoint::to_sockaddr(sockaddr_storage& out) const {
  out = {};
  if (family == Family::kUnix) {
    auto* un = reinterpret_cast<sockaddr_un*>(&out);
    un->sun_family = AF_UNIX;
    size_t length = std::min(name.size(), sizeof(un->sun_path) - 1);
    std::memcpy(un->sun_path + 1, name.data(), length);
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  }
  if (family == Family::kIpv4) {
    auto* in = reinterpret_cast<sockaddr_in*>(&out);
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    std::memcpy(&in->sin_addr, address.data(), sizeof(in->sin_addr));
    return sizeof(sockaddr_in);
  }
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&out);
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(port);
  std::memcpy(&in6->sin6_addr, address.data(), sizeof(in6->sin6_addr));
  return sizeof(sockaddr_in6);
}

std::string Endpoint::text() const {
  if (is_unix()) return fmt::format("unix:@{}", name);
  char buffer[INET6_ADDRSTRLEN] = {};
  bool v4 = family == Family::kIpv4;
  inet_ntop(v4 ? AF_INET : AF_INET6, address.data(), buffer, sizeof(buffer));
  return v4 ? fmt::format("{}:{}", buffer, port) : fmt::format("[{}]:{}", buffer, port);
}

HostIdentity HostIdentity::here() {
  HostIdentity identity;
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  // Without /proc the host's name has to do: worse only where two hosts share it.
  if (boot.empty()) boot = host_name();
  Secret digest = derive(as_bytes(boot), "boot id");
  std::copy_n(digest.begin(), identity.boot_id.size(), identity.boot_id.begin());
  struct stat info {};
  if (stat("/proc/self/ns/net", &info) == 0) identity.network_namespace = info.st_ino;
  identity.user = geteuid();
  return identity;
}

uint64_t HostIdentity::hash() const {
  Writer out;
  out.bytes(boot_id);
  out.u64(network_namespace);
  out.u32(user);
  return hash64(out.view());
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

namespace {

struct LocalAddress {
  std::string interface;
  Endpoint endpoint;
  int preference;  // smaller is better
};

bool is_link_local(const Endpoint& endpoint) {
  return endpoint.family == Endpoint::Family::kIpv6 && endpoint.address[0] == std::byte{0xfe} &&
         (endpoint.address[1] & std::byte{0xc0}) == std::byte{0x80};
}

// Bridges and pairs that container tools make: the same addresses exist on many hosts, so they come late.
bool is_bridge(const std::string& name) {
  return name.starts_with("docker") || name.starts_with("br-") || name.starts_with("virbr") ||
         name.starts_with("lxc") || name.starts_with("cni");
}

std::vector<LocalAddress> all_local_addresses(uint16_t port) {
  std::vector<LocalAddress> found;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    Endpoint endpoint = Endpoint::of(entry->ifa_addr);
    endpoint.port = port;
    if (is_link_local(endpoint)) continue;  // needs a scope that is only known here
    int preference = endpoint.family == Endpoint::Family::kIpv4 ? 0 : 1;
    if (is_bridge(entry->ifa_name)) preference += 2;
    if ((entry->ifa_flags & IFF_LOOPBACK) != 0) preference += 4;
    found.push_back({entry->ifa_name, endpoint, preference});
  }
  freeifaddrs(list);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.preference < b.preference; });
  return found;
}

}  // namespace

Result<std::vector<Endpoint>> local_addresses(const std::string& interface, uint16_t port) {
  std::vector<LocalAddress> all = all_local_addresses(port);
  std::vector<Endpoint> chosen;
  std::string known;
  for (const LocalAddress& entry : all) {
    std::string address = entry.endpoint.text();
    address = address.substr(0, address.rfind(':'));
    bool wanted = interface.empty()
                      ? entry.preference < 4
                      : entry.interface == interface || address == interface || address == "[" + interface + "]";
    if (wanted) chosen.push_back(entry.endpoint);
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", entry.interface, address);
  }
  if (chosen.empty() && interface.empty()) {
    for (const LocalAddress& entry : all) chosen.push_back(entry.endpoint);
  }
  if (chosen.empty() && !interface.empty()) {
    return error(Code::kInvalidUsage,
                 "TUTTI_INTERFACE is \"{}\", but this host has only {}: set one of these names or addresses", interface,
                 known.empty() ? "no network interface" : known);
  }
  return chosen;
}

Result<std::vector<Endpoint>> resolve(const std::string& host_and_port) {
  size_t colon = host_and_port.rfind(':');
  std::string host = host_and_port.substr(0, colon);
  std::string port = colon == std::string::npos ? "" : host_and_port.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  uint16_t number = 0;
  auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (host.empty() || problem != std::errc() || end != port.data() + port.size() || number == 0) {
    return error(Code::kInvalidUsage, "\"{}\" is not an address: write host:port, for instance node0:29400",
                 host_and_port);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (int failed = getaddrinfo(host.c_str(), port.c_str(), &hints, &list); failed != 0) {
    return error(Code::kInvalidUsage,
                 "the host name \"{}\" of the meeting address cannot be resolved ({}): use a name or address that "
                 "every host knows",
                 host, gai_strerror(failed));
  }
  std::vector<Endpoint> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next)
    found.push_back(Endpoint::of(entry->ai_addr));
  freeaddrinfo(list);
  return found;
}

}  // namespace tutti::bootstrap
