#include "discovery/topology_source.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "discovery/calibrate.h"
#include "discovery/discover.h"
#include "discovery/machine.h"
#include "discovery/text_file.h"
#include "topology/check_topology.h"
#include "topology/json_reader.h"
#include "topology/nccl_xml.h"

namespace tutti {
namespace {

constexpr int kMaxRanks = 1 << 20;

Result<Topology> ranks_on(const Inventory& host, const TopologyQuery& query, RankPlace usual) {
  bool on_gpus = (query.place == RankPlace::kUsual ? usual : query.place) == RankPlace::kGpu;
  if (on_gpus && host.gpus.empty()) {
    return error(Code::kInvalidArgument, "ranks cannot be placed on GPUs: {} has none{}{}",
                 host.hostname.empty() ? "the host" : host.hostname, host.gpu_note.empty() ? "" : ", ", host.gpu_note);
  }
  Placement placement{.hosts = std::max(1, query.hosts), .on_gpus = on_gpus};
  uint64_t usual_ranks = (on_gpus ? host.gpus.size() : 1) * static_cast<uint64_t>(placement.hosts);
  if (usual_ranks > kMaxRanks) return error(Code::kInvalidArgument, "more than {} ranks are not possible", kMaxRanks);
  placement.nranks = query.nranks == 0 ? static_cast<int>(usual_ranks) : query.nranks;
  if (placement.nranks % placement.hosts != 0) {
    return error(Code::kInvalidArgument, "{} ranks cannot be spread evenly over {} hosts", placement.nranks,
                 placement.hosts);
  }
  return placed(host, placement);
}

// "/nodes/dgx.xml" is host "dgx".
std::string stem_of(const std::string& file) { return std::filesystem::path(file).stem().string(); }

Result<Topology> described_by(std::string_view text, const TopologyQuery& query) {
  if (looks_like_xml(text)) {
    Inventory host = TUTTI_TRY(parse_nccl_xml(text));
    host.hostname = stem_of(query.file);
    return ranks_on(host, query, RankPlace::kGpu);
  }
  std::string format = TUTTI_TRY(document_format(text));
  if (format == "tutti.inventory") return ranks_on(TUTTI_TRY(parse_inventory(text)), query, RankPlace::kHost);
  if (format == "tutti.machine") {
    Machine machine = TUTTI_TRY(parse_machine(text));
    return ranks_on(TUTTI_TRY(discover(machine)), query, RankPlace::kHost);
  }
  Topology topology = TUTTI_TRY(parse_topology(text));  // also says what is wrong with any other format
  if (query.hosts != 0 || query.place != RankPlace::kUsual) {
    return Status(Code::kInvalidArgument, "it says itself which hosts there are and where their ranks sit");
  }
  return topology;
}

Result<Topology> described_by_file(const TopologyQuery& query) {
  std::string text = TUTTI_TRY(read_text_file(query.file));
  Result<Topology> topology = described_by(text, query);
  if (!topology.ok()) {
    return error(topology.status().code(), "{}: {}; correct the file, docs/topology.md has its format", query.file,
                 topology.status().message());
  }
  if (query.nranks != 0 && query.nranks != topology->nranks()) {
    return error(Code::kInvalidArgument, "{}: it has {} ranks, not {}; leave out the number of ranks", query.file,
                 topology->nranks(), query.nranks);
  }
  return topology;
}

}  // namespace

Result<Inventory> discover_host(const Config& config) {
  Inventory inventory = TUTTI_TRY(discover_live());
  inventory.costs = TUTTI_TRY(load_costs(config, inventory));
  inventory.fabric = config.fabric;
  return inventory;
}

Result<Topology> topology_for(const Config& config, const TopologyQuery& query) {
  for (auto [what, count] : {std::pair("ranks", query.nranks), std::pair("hosts", query.hosts)}) {
    if (count >= 0 && count <= kMaxRanks) continue;
    return error(Code::kInvalidArgument, "the number of {} must be from 0 to {}, not {}", what, kMaxRanks, count);
  }
  Topology topology = query.file.empty()
                          ? TUTTI_TRY(ranks_on(TUTTI_TRY(discover_host(config)), query, RankPlace::kHost))
                          : TUTTI_TRY(described_by_file(query));
  if (!config.transport.empty()) topology.forced_transport = config.transport;
  TUTTI_TRY(check_topology(topology));
  return topology;
}

}  // namespace tutti
