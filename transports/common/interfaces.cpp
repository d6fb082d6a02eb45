#include "transports/common/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <tuple>

namespace tutti {
namespace {

int64_t speed_of(const std::string& interface) {
  int64_t mbps = 0;
  std::ifstream("/sys/class/net/" + interface + "/speed") >> mbps;  // -1 or unreadable for many virtual ones
  return std::max<int64_t>(mbps, 0);
}

std::string numeric(const TcpAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(address.family == TcpAddress::Family::kIpv4 ? AF_INET : AF_INET6, address.bytes.data(), text,
              sizeof text);
  return text;
}

std::string listed(const std::vector<LocalAddress>& all) {
  std::string list;
  for (const LocalAddress& one : all) {
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", one.interface, numeric(one.address));
  }
  return list.empty() ? "none is up" : list;
}

}  // namespace

Result<std::vector<LocalAddress>> local_addresses(const std::string& wanted) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return system_error(errno, "cannot list the network interfaces");
  std::vector<LocalAddress> all;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    if (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6) continue;
    LocalAddress one{.interface = entry->ifa_name, .index = ::if_nametoindex(entry->ifa_name), .address = {}};
    one.address = tcp_address(entry->ifa_addr);
    one.address.loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    one.speed_mbps = speed_of(one.interface);
    all.push_back(std::move(one));
  }
  ::freeifaddrs(first);
  auto rank = [](const LocalAddress& one) {
    return std::tuple(one.address.loopback, one.address.link_local, -one.speed_mbps, one.address.family);
  };
  std::stable_sort(all.begin(), all.end(), [&](auto& a, auto& b) { return rank(a) < rank(b); });
  if (wanted.empty()) return all;
  std::vector<LocalAddress> chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
               [&](const LocalAddress& one) { return one.interface == wanted || numeric(one.address) == wanted; });
  if (!chosen.empty()) return chosen;
  return error(Code::kInvalidArgument, "there is no network interface or address '{}' that is up; there are: {}",
               wanted, listed(all));
}

}  // namespace tutti
