// A Topology as JSON. Local ranks and link classes follow from the rest: the former are not written, the latter only
// for readers. A rank's namespaces and affinity mask are written where they differ from its host's.
#include <algorithm>
#include <array>

#include "topology/check_topology.h"
#include "topology/describe.h"
#include "topology/digest.h"
#include "topology/json_document.h"
#include "topology/json_reader.h"
#include "topology/network.h"
#include "topology/topology.h"

namespace tutti {

constexpr std::string_view kFormat = "tutti.topology";
constexpr int kVersion = 1;
constexpr int kMaxRanks = 1 << 20;

constexpr std::array kKinds = {LinkKind::kSelf,     LinkKind::kLoopback,   LinkKind::kShm,        LinkKind::kTcp,
                               LinkKind::kVerbs,    LinkKind::kSameGpu,    LinkKind::kNvlink,     LinkKind::kNvswitch,
                               LinkKind::kPcieSwitch, LinkKind::kHostBridge, LinkKind::kSockets, LinkKind::kRdma};

static std::string kind_names() {
  std::string names;
  for (LinkKind kind : kKinds) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name_of(kind));
  return names;
}

template <typename V, Is<LinkClass> T>
void describe(V& v, T& each) {
  std::string kind(name_of(each.link.kind));
  v.text("kind", kind);
  if constexpr (V::kReads) {
    auto named = std::find_if(kKinds.begin(), kKinds.end(), [&](LinkKind each) { return name_of(each) == kind; });
    if (named == kKinds.end()) return v.refuse("kind", fmt::format("must be one of {}", kind_names()));
    each.link.kind = *named;
  }
  v.flag("mapped", each.link.mapped);
  v.flag("pull", each.link.pull);
  v.figure("latency_ns", each.link.latency_ns);
  v.figure("bytes_per_s", each.link.bytes_per_s);
  v.number("pairs", each.pairs, 0, kAnyNumber);
  v.number("first_a", each.first_a, 0, kMaxRanks);
  v.number("first_b", each.first_b, 0, kMaxRanks);
}

namespace {

struct HostEntry {
  Inventory inventory;
  Figure network_latency_ns;  // value 0: from the interfaces
  Figure network_bytes_per_s;
};

struct RankEntry {
  int host = 0;
  int64_t pid = 0;
  uint64_t pid_namespace = 0;  // 0: the host's
  uint64_t mount_namespace = 0;
  uint64_t user_namespace = 0;
  std::vector<int> cpus;  // empty: the host's
  int gpu = -1;
  int rdma_lanes = 0;
};

struct TopologyEntry {
  std::string forced_transport;
  std::vector<HostEntry> hosts;
  std::vector<RankEntry> ranks;
  std::vector<LinkClass> links;
};

template <typename V, Is<HostEntry> T>
void describe(V& v, T& host) {
  v.figure("network_latency_ns", host.network_latency_ns);
  v.figure("network_bytes_per_s", host.network_bytes_per_s);
  v.object("inventory", host.inventory);
}

template <typename V, Is<RankEntry> T>
void describe(V& v, T& rank) {
  v.number("host", rank.host, 0, kMaxRanks);
  v.number("pid", rank.pid, 0, std::numeric_limits<int64_t>::max());
  if (V::kReads || rank.pid_namespace != 0) v.number("pid_namespace", rank.pid_namespace, 0, kAnyNumber);
  if (V::kReads || rank.mount_namespace != 0) v.number("mount_namespace", rank.mount_namespace, 0, kAnyNumber);
  if (V::kReads || rank.user_namespace != 0) v.number("user_namespace", rank.user_namespace, 0, kAnyNumber);
  if (V::kReads || !rank.cpus.empty()) v.cpus("cpus", rank.cpus);
  if (V::kReads || rank.gpu >= 0) v.number("gpu", rank.gpu, -1, kMaxRanks);
  if (V::kReads || rank.rdma_lanes > 0) v.number("rdma_lanes", rank.rdma_lanes, 0, kMostRdmaLanes);
}

template <typename V, Is<TopologyEntry> T>
void describe(V& v, T& topology) {
  v.text("forced_transport", topology.forced_transport);
  v.list("hosts", topology.hosts);
  v.list("ranks", topology.ranks);
  v.list("links", topology.links);
}

// 0 where the rank's is its host's.
uint64_t difference(uint64_t rank, uint64_t host) { return rank == host ? 0 : rank; }

TopologyEntry entry_of(const Topology& topology) {
  TopologyEntry entry{topology.forced_transport, {}, {}, link_classes(topology)};
  for (const TopologyHost& host : topology.hosts) {
    entry.hosts.push_back({host.inventory, host.network_latency_ns, host.network_bytes_per_s});
  }
  for (const TopologyRank& rank : topology.ranks) {
    const Inventory& inventory = topology.hosts[rank.host].inventory;
    const HostIdentity& host = inventory.identity;
    bool anywhere = rank.cpus == inventory.cpu.allowed_cpus;
    entry.ranks.push_back({rank.host, rank.pid, difference(rank.identity.pid_namespace, host.pid_namespace),
                           difference(rank.identity.mount_namespace, host.mount_namespace),
                           difference(rank.identity.user_namespace, host.user_namespace),
                           anywhere ? std::vector<int>() : rank.cpus, rank.gpu, rank.rdma_lanes});
  }
  return entry;
}

TopologyHost host_of(HostEntry&& entry) {
  TopologyHost host{std::move(entry.inventory), {}, entry.network_latency_ns, entry.network_bytes_per_s};
  if (host.network_latency_ns.value == 0) host.network_latency_ns = network_latency_ns(host.inventory);
  if (host.network_bytes_per_s.value == 0) host.network_bytes_per_s = network_bytes_per_s(host.inventory);
  return host;
}

TopologyRank rank_of(RankEntry&& entry, const Inventory& host) {
  TopologyRank rank{entry.host, 0, entry.pid, host.identity, std::move(entry.cpus), entry.gpu, entry.rdma_lanes};
  if (entry.pid_namespace != 0) rank.identity.pid_namespace = entry.pid_namespace;
  if (entry.mount_namespace != 0) rank.identity.mount_namespace = entry.mount_namespace;
  if (entry.user_namespace != 0) rank.identity.user_namespace = entry.user_namespace;
  if (rank.cpus.empty()) rank.cpus = host.cpu.allowed_cpus;
  return rank;
}

}  // namespace

std::string to_json(const Topology& topology) { return write_document(entry_of(topology), kFormat, kVersion); }

Result<Topology> parse_topology(std::string_view json) {
  JsonValue document = TUTTI_TRY(parse_json(json));
  TopologyEntry entry = TUTTI_TRY(read_document<TopologyEntry>(document, kFormat, kVersion));
  auto refuse = [](const JsonValue& where, std::string path, std::string reason) {
    return document_error({where.line, std::move(path), std::move(reason)});
  };
  const JsonValue& ranks = document.member_or_self("ranks");
  if (entry.ranks.size() > kMaxRanks) return refuse(ranks, "ranks", fmt::format("has more than {} ranks", kMaxRanks));
  Topology topology;
  topology.forced_transport = entry.forced_transport;
  for (HostEntry& host : entry.hosts) topology.hosts.push_back(host_of(std::move(host)));
  for (RankEntry& rank : entry.ranks) {
    if (static_cast<size_t>(rank.host) >= topology.hosts.size()) {
      size_t i = topology.ranks.size();
      return refuse(ranks.items[i].member_or_self("host"), fmt::format("ranks[{}].host", i),
                    fmt::format("is {}, but the number of hosts is {}", rank.host, topology.hosts.size()));
    }
    const Inventory& host = topology.hosts[rank.host].inventory;
    if (rank.gpu >= static_cast<int>(host.gpus.size())) {
      size_t i = topology.ranks.size();
      return refuse(ranks.items[i].member_or_self("gpu"), fmt::format("ranks[{}].gpu", i),
                    fmt::format("is {}, but the number of GPUs of its host is {}", rank.gpu, host.gpus.size()));
    }
    topology.ranks.push_back(rank_of(std::move(rank), host));
  }
  number_local_ranks(topology);
  if (Status status = check_topology(topology); !status.ok()) {
    return error(status.code(), "line {}: {}", document.member_or_self("hosts").line, status.message());
  }
  if (!entry.links.empty() && entry.links != link_classes(topology)) {
    return refuse(document.member_or_self("links"), "links",
                  "contradicts the hosts' figures, from which it follows; change hosts[].inventory.costs or "
                  "hosts[].network_* instead and leave \"links\" out");
  }
  return topology;
}

uint64_t Topology::digest() const { return digest_of(to_json(*this)); }

}  // namespace tutti
