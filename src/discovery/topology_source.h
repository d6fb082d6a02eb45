// The Topology to plan for when there are no ranks to ask: of this host, or from a file.
#pragma once

#include <cstdint>
#include <string>

#include "base/config.h"
#include "base/status.h"
#include "topology/topology.h"

namespace tutti {

// This host, with the costs stored for it. Does not block.
Result<Inventory> discover_host(const Config& config);

// Where ranks are that no file describes.
enum class RankPlace : uint8_t {
  kUsual,  // on GPUs where NCCL described the host, else in the host's memory
  kHost,
  kGpu,
};

struct TopologyQuery {
  std::string file;  // "": this host
  int nranks = 0;    // 0: as many as `file` describes; of one that describes no ranks, one for each GPU, or one
  int hosts = 0;     // so many like it; 0: one
  RankPlace place = RankPlace::kUsual;
};

// The ranks of a query: in a `file` that is a Topology all is said, and the other fields may say nothing else. An
// Inventory, a recorded machine or NCCL's XML is one host. The option "transport" is forced as in a communicator.
// Errors name the file, line and reason.
Result<Topology> topology_for(const Config& config, const TopologyQuery& query);

}  // namespace tutti
