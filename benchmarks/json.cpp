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
  const Subject& subject = row.subject;
  return {{"size_bytes", row.size_bytes},
          {"count", row.count},
          {"type", subject.datatype ? Json(info(*subject.datatype).name) : Json(nullptr)},
          {"op", subject.op ? Json(info(*subject.op).name) : Json(nullptr)},
          {"root", subject.root ? Json(*subject.root) : Json(nullptr)},
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
      {"collective", info(run.options.collective).name},
      {"ranks", ranks},
      {"memory", run.options.memory == MemoryKind::kMalloc ? "malloc" : "tutti"},
      {"blocking", run.options.blocking},
      {"deterministic", run.options.deterministic},
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
