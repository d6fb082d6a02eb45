#include "plan/text.h"

#include <nlohmann/json.hpp>

namespace tutti {
namespace {

std::string_view name_of(Space space) {
  switch (space) {
    case Space::kInput: return "input";
    case Space::kOutput: return "output";
    case Space::kTemp: return "temp";
    case Space::kArrival: return "arrival";
  }
  return "?";
}

std::string_view name_of(StepKind kind) {
  switch (kind) {
    case StepKind::kCopy: return "copy";
    case StepKind::kReduce: return "reduce";
    case StepKind::kPut: return "put";
    case StepKind::kWait: return "wait";
  }
  return "?";
}

std::string_view name_of(Permission permission) {
  switch (permission) {
    case Permission::kNever: return "never";
    case Permission::kUnlessInPlace: return "unless_in_place";
    case Permission::kAlways: return "always";
  }
  return "?";
}

std::string to_text(const Place& place) { return fmt::format("{}[{}]", name_of(place.space), place.index); }

std::string join(const std::vector<Place>& places, std::string_view separator) {
  std::string text;
  for (const Place& place : places) {
    if (!text.empty()) text += separator;
    text += to_text(place);
  }
  return text;
}

std::string escaped(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string json_of(const std::vector<Place>& places) { return "[\"" + join(places, "\", \"") + "\"]"; }

std::string json_of(const Step& step) {
  std::string json = fmt::format(R"({{"kind": "{}")", name_of(step.kind));
  if (step.peer >= 0) json += fmt::format(R"(, "peer": {})", step.peer);
  if (step.into != kNoChunk) json += fmt::format(R"(, "into": {})", step.into);
  if (step.chunk != kNoChunk) json += fmt::format(R"(, "chunk": {})", step.chunk);
  if (step.lag > 0) json += fmt::format(R"(, "lag": {})", step.lag);
  if (step.finish) json += R"(, "finish": true)";
  if (!step.sources.empty()) json += fmt::format(R"(, "sources": {})", json_of(step.sources));
  if (!step.destinations.empty()) json += fmt::format(R"(, "destinations": {})", json_of(step.destinations));
  return json + "}";
}

std::string json_of(const RankPlan& part, int rank, int channel) {
  std::string json = fmt::format("    {{\"rank\": {}, \"channel\": {}, \"sections\": [", rank, channel);
  for (size_t s = 0; s < part.sections.size(); ++s) {
    const Section& section = part.sections[s];
    json += fmt::format("{}\n      {{\"steps\": [", s > 0 ? "," : "");
    for (size_t i = 0; i < section.steps.size(); ++i) {
      json += fmt::format("{}\n        {}", i > 0 ? "," : "", json_of(section.steps[i]));
    }
    json += "]}";
  }
  return json + "]}";
}

}  // namespace

std::string to_json(const Plan& plan, bool with_parts) {
  const PlanShape& shape = plan.shape();
  std::string optional =
      shape.groups.empty() ? "" : fmt::format("\"groups\": [{}], ", fmt::join(shape.groups, ", "));
  if (!shape.order.empty()) optional += fmt::format("\"order\": [{}], ", fmt::join(shape.order, ", "));
  if (shape.rendezvous) optional += "\"rendezvous\": 1, ";
  if (shape.by_chunk) optional += "\"by_chunk\": 1, ";
  std::string json = fmt::format(
      "{{\n  \"format\": \"tutti.plan\",\n  \"version\": 1,\n  \"shape\": {{\"algorithm\": {}, \"collective\": \"{}\", "
      "\"nranks\": {}, \"root\": {}, \"channels\": {},\n            \"chunks\": {}, \"slice_bytes\": {}, {}"
      "\"by_reference\": \"{}\", "
      "\"deliver_directly\": \"{}\"}}",
      escaped(shape.algorithm), tutti::name_of(shape.collective), shape.nranks, shape.root, shape.channels,
      shape.chunks, shape.slice_bytes, optional, name_of(shape.by_reference), name_of(shape.deliver_directly));
  if (with_parts) {
    json += ",\n  \"parts\": [";
    for (int rank = 0; rank < shape.nranks; ++rank) {
      for (int channel = 0; channel < shape.channels; ++channel) {
        json += fmt::format("{}\n{}", rank + channel > 0 ? "," : "", json_of(plan.part(rank, channel), rank, channel));
      }
    }
    json += "]";
  }
  return json + "\n}\n";
}

std::string to_text(const Step& step) {
  std::string text;
  std::string into = step.into == kNoChunk ? "" : fmt::format(" (into output[{}])", step.into);
  switch (step.kind) {
    case StepKind::kCopy:
      text = fmt::format("copy {} = {}", join(step.destinations, " = "), join(step.sources, ", "));
      break;
    case StepKind::kReduce:
      text = fmt::format("reduce {} = {}", join(step.destinations, " = "), join(step.sources, " + "));
      break;
    case StepKind::kPut:
      text = fmt::format("put {} -> rank {}{}", step.sources.empty() ? "signal" : join(step.sources, ", "), step.peer,
                         into);
      break;
    case StepKind::kWait:
      if (step.chunk != kNoChunk) into = fmt::format(" (chunk {})", step.chunk);
      text = fmt::format("wait <- rank {}{}", step.peer, into);
      break;
  }
  if (step.finish) text += ", finish";
  if (step.lag > 0) text += fmt::format(", lag {}", step.lag);
  return text;
}

}  // namespace tutti
