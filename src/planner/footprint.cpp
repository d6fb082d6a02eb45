#include "planner/footprint.h"

#include <algorithm>

#include "base/arithmetic.h"
#include "planner/rates.h"

namespace tutti {
namespace {

uint64_t touched_by(bool is_root, Collective collective, uint64_t all, uint64_t block, bool in_place) {
  auto together = [in_place](uint64_t input, uint64_t output) {
    return in_place ? std::max(input, output) : saturating_add(input, output);
  };
  switch (without_counts(collective)) {
    case TUTTI_ALL_GATHER:
    case TUTTI_REDUCE_SCATTER: return together(all, block);
    case TUTTI_GATHER:
    case TUTTI_SCATTER: return is_root ? together(all, block) : block;
    case TUTTI_REDUCE:
    case TUTTI_BROADCAST: return is_root ? together(all, all) : all;
    default: return together(all, all);
  }
}

}  // namespace

Footprint footprint_of(Collective collective, uint64_t size_bytes, bool in_place, const RanksOfHost& ranks) {
  uint64_t block = ceil_div(size_bytes, static_cast<uint64_t>(ranks.all));
  auto touched = [&](bool is_root) { return touched_by(is_root, collective, size_bytes, block, in_place); };
  auto others = static_cast<uint64_t>(ranks.local) - (ranks.has_root ? 1 : 0);
  uint64_t of_root = ranks.has_root ? touched(true) : 0;
  uint64_t of_others = saturating_mul(others, touched(false));
  return {.all_bytes = saturating_add(of_root, of_others),
          .most_bytes = std::max(of_root, others > 0 ? touched(false) : 0),
          .half_by_one = others > 0 && ranks.has_root && of_root >= of_others};
}

}  // namespace tutti
