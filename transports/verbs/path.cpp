#include "transports/verbs/path.h"

#include <arpa/inet.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace tutti {
namespace {

constexpr std::array<int, 5> kMtus = {256, 512, 1024, 2048, 4096};  // codes 1..5

// "mlx5_1:2" names one port, "mlx5_1" all of the device.
bool is_named(const PortFacts& port, std::string_view entry) {
  size_t colon = entry.rfind(':');
  if (entry.substr(0, colon) != port.device) return false;
  return colon == std::string_view::npos || entry.substr(colon + 1) == std::to_string(port.port);
}

size_t times_wanted(const PortFacts& port, std::string_view wanted) {
  size_t times = wanted.empty() ? 1 : 0;
  while (!wanted.empty()) {
    size_t comma = std::min(wanted.find(','), wanted.size());
    if (is_named(port, wanted.substr(0, comma))) ++times;
    wanted.remove_prefix(std::min(comma + 1, wanted.size()));
  }
  return times;
}

std::string listed(std::span<const PortFacts> ports) {
  std::string list;
  for (const PortFacts& port : ports) {
    list += fmt::format("{}{}:{} ({})", list.empty() ? "" : ", ", port.device, port.port, port.active ? "up" : "down");
  }
  return list;
}

// Of IPv4 addresses the first three bytes are compared, of others the prefix.
bool on_one_subnet(const Gid& a, const Gid& b) {
  size_t first = a.type == GidType::kRoceV2Ipv4 ? 12 : 0, last = a.type == GidType::kRoceV2Ipv4 ? 15 : 8;
  return std::equal(a.bytes.begin() + first, a.bytes.begin() + last, b.bytes.begin() + first);
}

struct Pair {
  const Gid* mine;
  const Gid* theirs;
  // The same from both ends, so both choose the same pair.
  std::pair<GidType, bool> kind() const { return {mine->type, !on_one_subnet(*mine, *theirs)}; }
  auto cost() const {
    return std::tuple(kind(), std::min(mine->bytes, theirs->bytes), std::max(mine->bytes, theirs->bytes));
  }
};

// Of one type, best first; but each kind, of a type within a subnet or not, is there once before any comes again.
std::vector<Pair> pairs_of(const PortAddress& self, const PortAddress& peer) {
  std::vector<Pair> pairs;
  for (const Gid& mine : self.gids) {
    for (const Gid& theirs : peer.gids) {
      if (mine.type == theirs.type) pairs.push_back({&mine, &theirs});
    }
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.cost() < b.cost(); });
  const Pair* before = nullptr;
  auto is_first_of_kind = [&before](const Pair& pair) {
    const Pair* last = std::exchange(before, &pair);
    return last == nullptr || last->kind() != pair.kind();
  };
  std::vector<Pair> ordered, others;
  for (const Pair& pair : pairs) (is_first_of_kind(pair) ? ordered : others).push_back(pair);
  ordered.insert(ordered.end(), others.begin(), others.end());
  return ordered;
}

// Within an InfiniBand subnet the LID leads there; over a router, and on Ethernet, it takes the GID.
bool goes_by_lid(const PortAddress& self, const PortAddress& peer, std::span<const Pair> pairs) {
  bool near = pairs.empty() || on_one_subnet(*pairs[0].mine, *pairs[0].theirs);
  return self.infiniband && self.lid != 0 && peer.lid != 0 && near;
}

// Of each type some: the peer may have another one first.
void keep_first_gids(std::vector<Gid>& gids) {
  if (gids.size() <= kMostGids) return;
  std::vector<std::pair<size_t, Gid>> ranked;  // by place within the type
  for (const Gid& gid : gids) {
    auto is_alike = [&](const auto& each) { return each.second.type == gid.type; };
    ranked.emplace_back(std::count_if(ranked.begin(), ranked.end(), is_alike), gid);
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  gids.clear();
  for (const auto& [place, gid] : std::span(ranked).first(kMostGids)) gids.push_back(gid);
}

std::string types_of(const PortAddress& port) {
  std::string types;
  for (const Gid& gid : port.gids) types += fmt::format("{}{}", types.empty() ? "" : ", ", name_of(gid.type));
  return types.empty() ? "none" : types;
}

}  // namespace

std::string_view name_of(GidType type) {
  switch (type) {
    case GidType::kRoceV2Ipv4: return "RoCE v2 over IPv4";
    case GidType::kRoceV2Ipv6: return "RoCE v2 over IPv6";
    case GidType::kRoceV2LinkLocal: return "RoCE v2, link-local";
    case GidType::kRoceV1: return "RoCE v1";
    case GidType::kInfiniband: return "InfiniBand";
  }
  return "?";
}

std::string to_text(const Gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, gid.bytes.data(), text.data(), text.size());
  return text.data();
}

uint64_t speed_mbps_of(int speed_code, int width_code) {
  uint64_t lane = 0, lanes = 0;
  switch (speed_code) {
    case 1: lane = 2'500; break;
    case 2: lane = 5'000; break;
    case 4:
    case 8: lane = 10'000; break;
    case 16: lane = 14'000; break;
    case 32: lane = 25'000; break;
    case 64: lane = 50'000; break;
    case 128: lane = 100'000; break;
    default: break;
  }
  switch (width_code) {
    case 1: lanes = 1; break;
    case 2: lanes = 4; break;
    case 4: lanes = 8; break;
    case 8: lanes = 12; break;
    case 16: lanes = 2; break;
    default: break;
  }
  return lane * lanes;
}

int mtu_bytes_of(int mtu_code) {
  return mtu_code >= 1 && mtu_code <= static_cast<int>(kMtus.size()) ? kMtus[mtu_code - 1] : 0;
}

int mtu_code_of(int mtu_bytes) {
  auto found = std::find(kMtus.begin(), kMtus.end(), mtu_bytes);
  return found == kMtus.end() ? 0 : static_cast<int>(found - kMtus.begin()) + 1;
}

Result<std::vector<size_t>> choose_ports(std::span<const PortFacts> ports, const std::string& wanted) {
  if (ports.empty()) return error(Code::kSystem, "there is no RDMA device");
  std::vector<size_t> chosen;
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].active) chosen.insert(chosen.end(), times_wanted(ports[i], wanted), i);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](size_t a, size_t b) { return ports[a].speed_mbps > ports[b].speed_mbps; });
  if (!chosen.empty()) return chosen;
  if (wanted.empty()) return error(Code::kSystem, "no port of an RDMA device is up; there are: {}", listed(ports));
  return error(Code::kInvalidArgument, "no RDMA port '{}' (TUTTI_IB_DEVICE) is up; there are: {}", wanted,
               listed(ports));
}

std::vector<size_t> order_ports(std::span<const PortFacts> ports, const HostPlace& rank) {
  auto kind = [&](size_t i) {  // what is unknown is near
    auto found = std::find(rank.numa_nodes.begin(), rank.numa_nodes.end(), ports[i].numa_node);
    bool is_far = ports[i].numa_node >= 0 && !rank.numa_nodes.empty() && found == rank.numa_nodes.end();
    return std::pair(UINT64_MAX - ports[i].speed_mbps, is_far);
  };
  std::vector<size_t> order(ports.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return kind(a) < kind(b); });
  auto begin = order.begin();
  while (begin != order.end()) {
    auto end = std::find_if(begin, order.end(), [&](size_t i) { return kind(i) != kind(*begin); });
    std::rotate(begin, begin + rank.turn % (end - begin), end);
    begin = end;
  }
  return order;
}

// First the best with the best and so on, then those that are one apart.
size_t port_at(size_t nth_try, size_t ports_of_first, size_t ports_of_second, bool is_first) {
  size_t first = nth_try % ports_of_first;
  return is_first ? first : (first + nth_try / ports_of_first) % ports_of_second;
}

Result<PortAddress> address_of(const PortFacts& port, int gid_index, int mtu_bytes) {
  if (mtu_bytes != 0 && mtu_code_of(mtu_bytes) == 0) {
    return error(Code::kInvalidArgument, "packets of RDMA have 256, 512, 1024, 2048 or 4096 bytes, not {} "
                 "(TUTTI_IB_MTU)", mtu_bytes);
  }
  PortAddress address{
      .infiniband = port.infiniband, .lid = port.lid, .mtu_bytes = port.mtu_bytes, .gids = port.gids};
  if (mtu_bytes != 0) address.mtu_bytes = std::min(address.mtu_bytes, mtu_bytes);
  if (gid_index >= 0) std::erase_if(address.gids, [&](const Gid& gid) { return gid.index != gid_index; });
  keep_first_gids(address.gids);
  std::stable_sort(address.gids.begin(), address.gids.end(),
                   [](const Gid& a, const Gid& b) { return a.type < b.type; });
  if (gid_index < 0 || !address.gids.empty()) return address;
  return error(Code::kInvalidArgument, "{} has no GID {} (TUTTI_IB_GID_INDEX)", port.name(), gid_index);
}

size_t count_routes(const PortAddress& self, const PortAddress& peer) {
  auto pairs = pairs_of(self, peer);
  return goes_by_lid(self, peer, pairs) ? 1 : pairs.size();
}

Result<Route> choose_route(const PortAddress& self, const PortAddress& peer, size_t tries) {
  if (self.infiniband != peer.infiniband) {
    return error(Code::kInvalidUsage, "one end is on InfiniBand and the other one on Ethernet (TUTTI_IB_DEVICE)");
  }
  Route route{.from = {}, .to = {}, .lid = peer.lid, .mtu_bytes = std::min(self.mtu_bytes, peer.mtu_bytes)};
  auto pairs = pairs_of(self, peer);
  route.by_gid = !goes_by_lid(self, peer, pairs);
  if (!pairs.empty()) {
    const Pair& pair = pairs[route.by_gid ? tries % pairs.size() : 0];
    route.from = *pair.mine;
    route.to = *pair.theirs;
  }
  if (!route.by_gid || !pairs.empty()) return route;
  return error(Code::kInvalidUsage, "the ports have no type of GID in common: {} here, {} there", types_of(self),
               types_of(peer));
}

}  // namespace tutti
