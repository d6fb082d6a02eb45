// Which ports there are, which one a rank uses, and by which addresses two ports reach each other. Pure functions over
// plain values, so that fabrics which are not there can be tested.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "topology/host_place.h"

namespace tutti {

// In the order of preference where both ends have several.
enum class GidType : uint8_t { kRoceV2Ipv4, kRoceV2Ipv6, kRoceV2LinkLocal, kRoceV1, kInfiniband };
std::string_view name_of(GidType type);

struct Gid {
  int index = 0;
  GidType type = GidType::kInfiniband;
  std::array<std::byte, 16> bytes{};  // in network order
  friend bool operator==(const Gid&, const Gid&) = default;
};
// "::ffff:10.0.0.1"
std::string to_text(const Gid& gid);

struct PortFacts {
  std::string device;         // "mlx5_0"
  int port = 1;
  bool active = false;
  bool infiniband = false;    // else Ethernet
  uint16_t lid = 0;           // 0: none
  int mtu_bytes = 0;          // what it runs at
  uint64_t speed_mbps = 0;
  int numa_node = -1;         // -1: unknown
  std::vector<Gid> gids;
  friend bool operator==(const PortFacts&, const PortFacts&) = default;
  std::string name() const { return fmt::format("{} port {}", device, port); }
};

// Encodings of the InfiniBand specification; 0: unknown.
uint64_t speed_mbps_of(int speed_code, int width_code);
int mtu_bytes_of(int mtu_code);
int mtu_code_of(int mtu_bytes);

// The ports to use, the fastest first: those that `wanted` names ("mlx5_0,mlx5_1:2"; "": any) and that are up, as often
// as it does. Errors, when there is none, name what there is.
Result<std::vector<size_t>> choose_ports(std::span<const PortFacts> ports, const std::string& wanted);

// In which order a rank takes them: the fastest first, of these the near ones; ranks that are alike go through those
// that are alike in turn.
std::vector<size_t> order_ports(std::span<const PortFacts> ports, const HostPlace& rank);

// Two ends with several ports try them in pairs until one works: which port of its own an end takes at the n-th try,
// and after how many all pairs have been tried.
size_t port_at(size_t nth_try, size_t ports_of_first, size_t ports_of_second, bool is_first);

// So many GIDs the peer is told of at most, and so both ends choose among the same ones.
inline constexpr size_t kMostGids = 64;

// One end as the other one knows it.
struct PortAddress {
  bool infiniband = false;
  uint16_t lid = 0;
  int mtu_bytes = 0;
  std::vector<Gid> gids;      // by type
  friend bool operator==(const PortAddress&, const PortAddress&) = default;
};

struct Route {
  bool by_gid = false;        // with a global header; else by LID alone
  Gid from;
  Gid to;
  uint16_t lid = 0;           // of the peer, InfiniBand only
  int mtu_bytes = 0;
};

// What the peer is told of a port. `gid_index`: the only GID to use, -1: any, of each type the first ones where there
// are too many. `mtu_bytes`: at most, 0: what it runs at.
Result<PortAddress> address_of(const PortFacts& port, int gid_index, int mtu_bytes);

// The route from `self` to `peer`, which finds the same one backwards: the best one, or after `tries` in vain by others
// the one that is next and as different as can be.
Result<Route> choose_route(const PortAddress& self, const PortAddress& peer, size_t tries = 0);
// How many there are; the same from both ends.
size_t count_routes(const PortAddress& self, const PortAddress& peer);

}  // namespace tutti
