#include "discovery/topology_source.h"

#include "discovery/calibrate.h"
#include "discovery/discover.h"
#include "discovery/machine.h"
#include "discovery/text_file.h"
#include "topology/check_topology.h"
#include "topology/json_reader.h"

namespace tutti {
namespace {

constexpr int kMaxRanks = 1 << 20;

Result<Topology> hosted(Result<Inventory> inventory, int nranks) {
  if (!inventory.ok()) return std::move(inventory).status();
  return single_host(*inventory, nranks == 0 ? 1 : nranks);
}

Result<Inventory> inventory_of_machine(std::string_view text) { return discover(TUTTI_TRY(parse_machine(text))); }

Result<Topology> described_by(std::string_view text, int nranks) {
  std::string format = TUTTI_TRY(document_format(text));
  if (format == "tutti.inventory") return hosted(parse_inventory(text), nranks);
  if (format == "tutti.machine") return hosted(inventory_of_machine(text), nranks);
  return parse_topology(text);  // also says what is wrong with any other format
}

Result<Topology> described_by_file(const std::string& file, int nranks) {
  std::string text = TUTTI_TRY(read_text_file(file));
  Result<Topology> topology = described_by(text, nranks);
  if (!topology.ok()) {
    return error(topology.status().code(), "{}: {}; correct the file, docs/topology.md has its format", file,
                 topology.status().message());
  }
  if (nranks != 0 && nranks != topology->nranks()) {
    return error(Code::kInvalidArgument, "{}: it has {} ranks, not {}; leave out the number of ranks", file,
                 topology->nranks(), nranks);
  }
  return topology;
}

}  // namespace

Result<Inventory> discover_host(const Config& config) {
  Inventory inventory = TUTTI_TRY(discover_live());
  inventory.costs = TUTTI_TRY(load_costs(config, inventory));
  return inventory;
}

Result<Topology> topology_for(const Config& config, const std::string& file, int nranks) {
  if (nranks < 0 || nranks > kMaxRanks) {
    return error(Code::kInvalidArgument, "the number of ranks must be from 0 to {}, not {}", kMaxRanks, nranks);
  }
  Topology topology =
      file.empty() ? TUTTI_TRY(hosted(discover_host(config), nranks)) : TUTTI_TRY(described_by_file(file, nranks));
  if (!config.transport.empty()) topology.forced_transport = config.transport;
  TUTTI_TRY(check_topology(topology));
  return topology;
}

}  // namespace tutti
