#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "element.h"
#include "report.h"

namespace tutti::bench {
namespace {

using Json = nlohmann::ordered_json;

Json placement_json(const Placement& placement) {
  const Timing& timing = placement.timing;
  Json json = {{"iterations", timing.iterations},   {"time_us", timing.mean_us}, {"min_us", timing.min_us},
               {"median_us", timing.median_us},     {"max_us", timing.max_us},   {"algbw_gbps", placement.algbw_gbps},
               {"busbw_gbps", placement.busbw_gbps}};
  if (placement.of_copy) json["of_copy"] = *placement.of_copy;
  json["wrong"] = placement.wrong ? Json(*placement.wrong) : Json(nullptr);
  return json;
}

Json placement_json(const std::optional<Placement>& placement) {
  return placement ? placement_json(*placement) : Json(nullptr);
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

Json row_json(const PairRow& row) {
  Json json = {{"size_bytes", row.size_bytes}, {"count", row.count}, {"type", info(row.datatype).name}};
  json.update(placement_json(row.placement));
  json["messages_per_s"] = row.messages_per_s;
  return json;
}

std::string version_text() {
  return fmt::format("{}.{}.{}", TUTTI_VERSION_MAJOR, TUTTI_VERSION_MINOR, TUTTI_VERSION_PATCH);
}

Json ranks_json(const std::vector<RankInfo>& infos) {
  Json ranks = Json::array();
  for (size_t rank = 0; rank < infos.size(); ++rank) {
    const RankInfo& info = infos[rank];
    ranks.push_back({{"rank", rank}, {"pid", info.pid}, {"host", info.host}, {"device", info.device}});
  }
  return ranks;
}

std::string_view name_of(MemoryKind memory) {
  switch (memory) {
    case MemoryKind::kMalloc: return "malloc";
    case MemoryKind::kTutti: return "tutti";
    case MemoryKind::kRegistered: break;
  }
  return "registered";
}

}  // namespace

std::string json_text(const Run& run) {
  Json rows = Json::array();
  for (const Row& row : run.rows) rows.push_back(row_json(row));
  Json json = {
      {"version", version_text()},
      {"collective", info(run.options.collective).name},
      {"ranks", ranks_json(run.ranks)},
      {"memory", name_of(run.options.memory)},
      {"blocking", run.options.blocking},
      {"deterministic", run.options.deterministic},
      {"average", static_cast<int>(run.options.average)},
      {"results", rows},
      {"out_of_bounds", run.summary.out_of_bounds},
      {"average_busbw_gbps", run.summary.average_busbw_gbps},
      {"memcpy_gbps_per_rank", run.summary.memcpy_gbps},
      {"memcpy_bytes", run.summary.memcpy_bytes},
  };
  if (run.summary.gpu_copy_gbps > 0) {
    json["gpu_copy_gbps"] = run.summary.gpu_copy_gbps;
    json["gpu_copy_bytes"] = run.summary.gpu_copy_bytes;
  }
  return json.dump(2) + "\n";
}

std::string json_text(const PairRun& run) {
  Json rows = Json::array();
  for (const PairRow& row : run.rows) rows.push_back(row_json(row));
  bool has_window = run.options.measure == PairMeasure::kBandwidth;
  Json json = {
      {"version", version_text()},
      {"benchmark", name_of(run.options.measure)},
      {"ranks", ranks_json(run.ranks)},
      {"transport", run.transport},
      {"memory", name_of(run.options.common.memory)},
      {"window", has_window ? Json(run.options.window) : Json(nullptr)},
      {"results", rows},
      {"out_of_bounds", run.out_of_bounds},
  };
  return json.dump(2) + "\n";
}

}  // namespace tutti::bench
