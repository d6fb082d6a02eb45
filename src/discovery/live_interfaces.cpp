// Network interfaces by system calls: sysfs may show those of another network namespace.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/fd.h"
#include "discovery/live_system.h"

namespace tutti {
namespace {

// "" for an address that is not for other hosts.
std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
    if (!IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
  }
  return text.data();
}

uint32_t mtu_of(const std::string& name, const Fd& socket) {
  ifreq request{};
  if (!socket || name.size() >= sizeof request.ifr_name) return 0;
  std::memcpy(request.ifr_name, name.c_str(), name.size() + 1);
  return ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0 ? static_cast<uint32_t>(request.ifr_mtu) : 0;
}

Interface interface_of(const ifaddrs& entry, const Fd& socket) {
  Interface interface;
  interface.name = entry.ifa_name;
  interface.index = static_cast<int>(::if_nametoindex(entry.ifa_name));
  interface.up = (entry.ifa_flags & IFF_UP) != 0 && (entry.ifa_flags & IFF_RUNNING) != 0;
  interface.loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  interface.mtu = mtu_of(interface.name, socket);
  return interface;
}

}  // namespace

Result<std::vector<Interface>> LiveSystem::interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return system_error(errno, "cannot list the network interfaces");
  std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    auto known = std::find_if(interfaces.begin(), interfaces.end(),
                              [&](const Interface& each) { return each.name == entry->ifa_name; });
    if (known == interfaces.end()) known = interfaces.insert(known, interface_of(*entry, socket));
    if (entry->ifa_addr == nullptr) continue;
    std::string address = address_text(entry->ifa_addr);
    if (!address.empty()) known->addresses.push_back(address);
  }
  return interfaces;
}

}  // namespace tutti
