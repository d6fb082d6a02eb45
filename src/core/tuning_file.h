// Tuning files: found, read, compared over the ranks, and written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "planner/tuning_table.h"
#include "topology/topology.h"

namespace tutti {

inline constexpr std::string_view kNoTuning = "off";  // value of the option "tuning"

// What this rank would plan with. Empty: no tuning.
struct StoredTuning {
  std::vector<TunedCollective> collectives;
  uint64_t digest = 0;  // 0: there is none
  bool named = false;   // by the option, not found in the cache folder
};

// The tuning that the option "tuning" names, or else the one in the cache folder for the ranks of `topology`, if any.
// One rank has nothing to choose and gets none. A file that cannot be used (malformed, for other ranks) is an error
// when the option names it, with the reason and the remedy; else it is warned of. Does not block.
Result<StoredTuning> load_tuning(const Config& config, const Topology& topology);

// A rank's word on which tuning it has, as the ranks exchange it.
struct TuningVote {
  uint64_t digest = 0;
  uint64_t named = 0;
};
TuningVote vote_of(const StoredTuning& stored);

// Whether all ranks have the same tuning; where not, none is to be used. Errors: they differ, and one of them was told
// which to use (names two ranks and the remedy).
Result<bool> agree(std::span<const TuningVote> votes);

// Writes `table` to `path`, or if that is "" to the cache folder, where load_tuning() finds it. Gives the path.
Result<std::string> store_tuning(TuningTable table, const std::string& path);

}  // namespace tutti
