#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "element.h"
#include "report.h"

namespace tutti::bench {
namespace {

using Json = nlohmann::ordered_json;

Json placement_json(const std::optional<Placement>& placement) {
  if (!placement) return nullptr;
  const Timing& timing = placement->timing;
  Json json = {{"iterations", timing.iterations},    {"time_us", timing.mean_us}, {"min_us", timing.min_us},
               {"median_us", timing.median_us},      {"max_us", timing.max_us},   {"algbw_gbps", placement->algbw_gbps},
               {"busbw_gbps", placement->busbw_gbps}};
  json["wrong"] = placement->wrong ? Json(*placement->wrong) : Json(nullptr);
  return json;
}

Json row_json(const Row& row) {
  return {{"size_bytes", row.size_bytes},
          {"count", row.count},
          {"type", info(row.datatype).name},
          {"op", name_of(row.op)},
          {"algorithm", row.algorithm},
          {"transport", row.transport},
          {"channels", row.channels},
          {"predicted_us", static_cast<double>(row.predicted_ns) / 1e3},
          {"out_of_place", placement_json(row.out_of_place)},
          {"in_place", placement_json(row.in_place)}};
}

}  // namespace

std::string json_text(const Run& run) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    ranks.push_back({{"rank", rank}, {"pid", run.ranks[rank].pid}, {"host", run.ranks[rank].host}});
  }
  Json rows = Json::array();
  for (const Row& row : run.rows) rows.push_back(row_json(row));
  Json json = {
      {"version", fmt::format("{}.{}.{}", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH)},
      {"collective", "all_reduce"},
      {"ranks", ranks},
      {"memory", run.options.memory == MemoryKind::kMalloc ? "malloc" : "tutti"},
      {"blocking", run.options.blocking},
      {"average", static_cast<int>(run.options.average)},
      {"results", rows},
      {"out_of_bounds", run.summary.out_of_bounds},
      {"average_busbw_gbps", run.summary.average_busbw_gbps},
      {"memcpy_gbps_per_rank", run.summary.memcpy_gbps},
      {"memcpy_bytes", run.summary.memcpy_bytes},
  };
  return json.dump(2) + "\n";
}

}  // namespace tutti::bench
