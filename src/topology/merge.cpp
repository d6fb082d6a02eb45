#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/arithmetic.h"
#include "base/check.h"
#include "topology/check_topology.h"
#include "topology/network.h"
#include "topology/topology.h"

namespace tutti {
namespace {

// A host without a readable boot id is told from others by its name.
auto host_key(const Inventory& inventory) {
  const HostIdentity& identity = inventory.identity;
  return std::tuple(identity.boot_id, identity.net_namespace,
                    identity.boot_id.empty() ? inventory.hostname : std::string());
}

std::vector<int> united(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

// What the rank could not find out about itself is taken from its host.
TopologyRank rank_of(const RankFacts& facts, int host, const Inventory& first) {
  TopologyRank rank{host, 0, facts.pid, facts.inventory.identity, facts.inventory.cpu.allowed_cpus};
  rank.rdma_lanes = facts.rdma_lanes;
  if (rank.identity.pid_namespace == 0) rank.identity.pid_namespace = first.identity.pid_namespace;
  if (rank.identity.mount_namespace == 0) rank.identity.mount_namespace = first.identity.mount_namespace;
  if (rank.identity.user_namespace == 0) rank.identity.user_namespace = first.identity.user_namespace;
  return rank;
}

TopologyHost host_of(const Inventory& inventory) {
  return {inventory, {}, network_latency_ns(inventory), network_bytes_per_s(inventory)};
}

std::string place_of(const Topology& topology, int rank) {
  return fmt::format("rank {} on {}", rank, topology.hosts[topology.ranks[rank].host].inventory.hostname);
}

Status check_byte_order(const Topology& topology) {
  auto architecture = [](const TopologyHost& host) { return std::string_view(host.inventory.cpu.architecture); };
  const TopologyHost& first = topology.hosts.front();
  for (const TopologyHost& host : topology.hosts) {
    if (is_big_endian(architecture(host)) == is_big_endian(architecture(first))) continue;
    return error(Code::kInvalidUsage,
                 "{} ({}) and {} ({}) differ in byte order; run all ranks on machines of one byte order",
                 place_of(topology, first.ranks.front()), architecture(first), place_of(topology, host.ranks.front()),
                 architecture(host));
  }
  return {};
}

// A host whose interfaces are not listed at all is given the benefit of the doubt.
bool cut_off(const TopologyHost& host) { return !host.inventory.nics.empty() && main_nic(host.inventory) == nullptr; }

Status check_between_hosts(const Topology& topology) {
  int a = topology.hosts[0].ranks.front();
  int b = topology.hosts[1].ranks.front();
  if (topology.forced_transport == "shm" || topology.forced_transport == "loopback") {
    return error(
        Code::kInvalidUsage,
        "transport \"{}\" was asked for, but {} and {} share no kernel and network namespace; leave the option "
        "\"transport\" unset or use \"tcp\"",
        topology.forced_transport, place_of(topology, a), place_of(topology, b));
  }
  auto alone = std::find_if(topology.hosts.begin(), topology.hosts.end(), cut_off);
  if (alone == topology.hosts.end()) return {};
  int other = alone == topology.hosts.begin() ? b : a;
  return error(
      Code::kInvalidUsage,
      "{} cannot reach {}: it has no network interface besides loopback that is up and has an address; bring one up",
      place_of(topology, alone->ranks.front()), place_of(topology, other));
}

Status check_verbs(const Topology& topology) {
  for (int rank = 0; rank < topology.nranks(); ++rank) {
    if (topology.ranks[rank].rdma_lanes > 0) continue;
    return error(Code::kInvalidUsage,
                 "transport \"verbs\" was asked for, but {} has no RDMA device that works; TUTTI_LOG=info says why",
                 place_of(topology, rank));
  }
  return {};
}

Status check_one_process(const Topology& topology) {
  for (int rank = 1; rank < topology.nranks(); ++rank) {
    if (topology.same_process(0, rank)) continue;
    return error(
        Code::kInvalidUsage,
        "transport \"loopback\" was asked for, but {} and {} are different processes; leave the option \"transport\" "
        "unset or use \"shm\"",
        place_of(topology, 0), place_of(topology, rank));
  }
  return {};
}

}  // namespace

Status check_topology(const Topology& topology) {
  constexpr std::array<std::string_view, 5> kTransports = {"", "shm", "tcp", "verbs", "loopback"};
  if (topology.ranks.empty()) return error(Code::kInvalidArgument, "a topology needs at least one rank");
  if (std::find(kTransports.begin(), kTransports.end(), topology.forced_transport) == kTransports.end()) {
    return error(Code::kInvalidArgument,
                 "there is no transport \"{}\"; use \"shm\", \"tcp\", \"verbs\", \"loopback\" or \"\"",
                 topology.forced_transport);
  }
  for (const TopologyHost& host : topology.hosts) {
    if (host.ranks.empty()) {
      return error(Code::kInvalidArgument, "host {} has no rank; leave it out", &host - topology.hosts.data());
    }
  }
  TUTTI_TRY(check_byte_order(topology));
  if (topology.forced_transport == "verbs") TUTTI_TRY(check_verbs(topology));
  if (topology.hosts.size() > 1) return check_between_hosts(topology);
  if (topology.forced_transport == "loopback") return check_one_process(topology);
  return {};
}

void number_local_ranks(Topology& topology) {
  for (TopologyHost& host : topology.hosts) host.ranks.clear();
  for (int rank = 0; rank < topology.nranks(); ++rank) {
    std::vector<int>& peers = topology.hosts[topology.ranks[rank].host].ranks;
    topology.ranks[rank].local_rank = static_cast<int>(peers.size());
    peers.push_back(rank);
  }
}

Result<Topology> merge(std::span<const RankFacts> ranks, std::string_view forced_transport) {
  Topology topology;
  topology.forced_transport = forced_transport;
  std::map<decltype(host_key(Inventory())), int> hosts;
  for (const RankFacts& facts : ranks) {
    auto [entry, fresh] = hosts.try_emplace(host_key(facts.inventory), static_cast<int>(topology.hosts.size()));
    if (fresh) topology.hosts.push_back(host_of(facts.inventory));
    Inventory& host = topology.hosts[entry->second].inventory;
    topology.ranks.push_back(rank_of(facts, entry->second, host));
    host.cpu.allowed_cpus = united(host.cpu.allowed_cpus, facts.inventory.cpu.allowed_cpus);
  }
  for (TopologyRank& rank : topology.ranks) {
    if (rank.cpus.empty()) rank.cpus = topology.hosts[rank.host].inventory.cpu.allowed_cpus;
  }
  number_local_ranks(topology);
  TUTTI_TRY(check_topology(topology));
  return topology;
}

Topology placed(const Inventory& inventory, const Placement& placement) {
  TUTTI_CHECK(placement.hosts >= 1 && placement.nranks >= placement.hosts);
  TUTTI_CHECK(!placement.on_gpus || !inventory.gpus.empty());
  Topology topology;
  for (int h = 0; h < placement.hosts; ++h) {
    topology.hosts.push_back(host_of(inventory));
    if (placement.hosts == 1) continue;
    Inventory& named = topology.hosts.back().inventory;
    named.hostname = fmt::format("{}-{}", inventory.hostname, h);
    if (!named.identity.boot_id.empty()) named.identity.boot_id = fmt::format("{}-{}", inventory.identity.boot_id, h);
  }
  int ranks_per_host = ceil_div(placement.nranks, placement.hosts);
  int ngpus = std::min(ranks_per_host, static_cast<int>(inventory.gpus.size()));
  for (int i = 0; i < placement.nranks; ++i) {
    int host = i / ranks_per_host, local = i % ranks_per_host;
    TopologyRank rank = rank_of({topology.hosts[host].inventory, local + 1}, host, topology.hosts[host].inventory);
    if (placement.on_gpus) rank.gpu = local * ngpus / ranks_per_host;
    topology.ranks.push_back(std::move(rank));
  }
  number_local_ranks(topology);
  return topology;
}

Topology single_host(const Inventory& inventory, int nranks) { return placed(inventory, {.nranks = nranks}); }

}  // namespace tutti
