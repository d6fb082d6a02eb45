// Any text is refused with a sentence or is an Inventory that writes and reads back as itself, and whose GPUs can be
// planned for.
#include <algorithm>

#include "fuzz/input.h"
#include "topology/nccl_xml.h"
#include "topology/topology.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size_bytes) {
  auto first = tutti::parse_nccl_xml(tutti::fuzz::as_text(data, size_bytes));
  if (!first.ok()) {
    TUTTI_CHECK(!first.status().message().empty());
    return 0;
  }
  auto second = tutti::parse_inventory(tutti::to_json(*first));
  TUTTI_CHECK(second.ok() && *second == *first);
  int ngpus = static_cast<int>(std::min<size_t>(first->gpus.size(), 8));
  tutti::Topology topology = tutti::placed(*first, {.nranks = 2 * ngpus, .hosts = 2, .on_gpus = true});
  for (int a = 0; a < topology.nranks(); ++a) {
    for (int b = 0; b < a; ++b) TUTTI_CHECK(topology.link(a, b) == topology.link(b, a));
  }
  TUTTI_CHECK(!tutti::to_tree(topology).empty());
  return 0;
}
