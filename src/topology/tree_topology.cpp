#include <fmt/format.h>

#include "topology/cpu_list.h"
#include "topology/topology.h"
#include "topology/tree.h"
#include "topology/units.h"

namespace tutti {
namespace {

// Ranks that differ only in their number and pid are one line beyond this many.
constexpr size_t kRanksListedSingly = 16;

std::string rank_text(const TopologyRank& rank, int number, const TopologyHost& host) {
  std::string text = fmt::format("rank {}: local rank {}, pid {}", number, rank.local_rank, rank.pid);
  if (rank.cpus != host.inventory.cpu.allowed_cpus) text += fmt::format(", CPUs {}", format_cpu_list(rank.cpus));
  if (rank.rdma_lanes > 1) text += fmt::format(", {} side by side", count_text(rank.rdma_lanes, "RDMA port"));
  if (rank.gpu >= 0) text += fmt::format(", on gpu {}", rank.gpu);
  if (rank.identity != host.inventory.identity) text += ", in namespaces of its own";
  return text;
}

void add_ranks(TreeNode& node, const Topology& topology, const TopologyHost& host) {
  auto plain = [&](int rank) {
    const TopologyRank& facts = topology.ranks[rank];
    return facts.gpu < 0 && facts.cpus == host.inventory.cpu.allowed_cpus && facts.identity == host.inventory.identity;
  };
  std::vector<int> together;
  std::vector<int> single;
  for (int rank : host.ranks)
    (host.ranks.size() > kRanksListedSingly && plain(rank) ? together : single).push_back(rank);
  if (!together.empty()) node.add(fmt::format("ranks {}: {} processes", format_cpu_list(together), together.size()));
  for (int rank : single) node.add(rank_text(topology.ranks[rank], rank, host));
}

}  // namespace

std::string link_text(const LinkClass& each) {
  const TopologyLink& link = each.link;
  std::string pairs = each.pairs == 1
                          ? fmt::format("ranks {} and {}", each.first_a, each.first_b)
                          : fmt::format("{} pairs like ranks {} and {}", each.pairs, each.first_a, each.first_b);
  std::string abilities;
  if (link.mapped) abilities += ", memory mapped";
  if (link.pull) abilities += ", private memory readable";
  return fmt::format("{}: {}, one way {}{}; {}", name_of(link.kind), rate_text(link.bytes_per_s),
                     time_text(link.latency_ns), abilities, pairs);
}

std::string to_tree(const Topology& topology) {
  TreeNode root{fmt::format("{} on {}, topology {:016x}", count_text(topology.nranks(), "rank"),
                            count_text(topology.hosts.size(), "host"), topology.digest()),
                {}};
  if (topology.oversubscribed()) root.text += ", more ranks than CPUs";
  if (!topology.forced_transport.empty()) root.text += fmt::format(", transport {} forced", topology.forced_transport);
  for (const TopologyHost& host : topology.hosts) {
    TreeNode node = tree_of(host.inventory);
    if (topology.hosts.size() > 1) {
      node.add(
          fmt::format("network: {}, adds {}", rate_text(host.network_bytes_per_s), time_text(host.network_latency_ns)));
    }
    add_ranks(node, topology, host);
    root.children.push_back(std::move(node));
  }
  if (topology.nranks() > 1) {
    TreeNode& links = root.add("links");
    for (const LinkClass& each : link_classes(topology)) links.add(link_text(each));
  }
  return render(root);
}

}  // namespace tutti
