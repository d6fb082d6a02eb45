#include "plan/text.h"
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

std::string join(const std::vector<Place>& places, std::string_view separator) {
  std::string text;
  for (const Place& place : places) {
    if (!text.empty()) text += separator;
    text += fmt::format("{}[{}]", name_of(place.space), place.index);
  }
  return text;
}
}  // namespace

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
      text = fmt::format("put {} -> rank {}{}", step.sources.empty() ? "signal" : join(step.sources, ", "), step.peer, into);
      break;
    case StepKind::kWait:
      text = fmt::format("wait <- rank {}{}", step.peer, into);
      break;
  }
  if (step.finish) text += ", finish";
  if (step.lag > 0) text += fmt::format(", lag {}", step.lag);
  return text;
}
}  // namespace tutti
