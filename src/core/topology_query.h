// A query of the C API as discovery takes it.
#pragma once

#include "base/status.h"
#include "discovery/topology_source.h"
#include "tutti/tutti_topology.h"

namespace tutti {

// `file` may be null. Errors: an unknown place.
inline Result<TopologyQuery> topology_query(const char* file, int nranks, int hosts, tutti_rank_place_t place) {
  TopologyQuery query{.file = file == nullptr ? "" : file, .nranks = nranks, .hosts = hosts};
  switch (place) {
    case TUTTI_RANKS_USUAL: return query;
    case TUTTI_RANKS_ON_HOST: query.place = RankPlace::kHost; return query;
    case TUTTI_RANKS_ON_GPUS: query.place = RankPlace::kGpu; return query;
  }
  return error(Code::kInvalidArgument, "place {} does not exist", static_cast<int>(place));
}

}  // namespace tutti
