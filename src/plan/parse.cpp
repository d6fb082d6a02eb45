#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/json_value.h"
#include "plan/resolve.h"
#include "plan/text.h"

namespace tutti {
namespace {

using Kind = JsonValue::Kind;

template <typename... Args>
Status wrong(const JsonValue& value, fmt::format_string<Args...> text, Args&&... args) {
  return error(Code::kInvalidArgument, "line {}: {}", value.line, fmt::format(text, std::forward<Args>(args)...));
}

// Takes an object apart member by member.
class Reader {
 public:
  // `what` names the object in errors.
  Reader(const JsonValue& object, std::string_view what) : object_(object), what_(what) {}

  // nullptr when absent.
  const JsonValue* find(std::string_view name) {
    known_.push_back(name);
    return object_.member(name);
  }
  Result<const JsonValue*> need(std::string_view name, Kind kind) {
    const JsonValue* value = find(name);
    if (object_.kind != Kind::kObject) return wrong(object_, "{} must be an object", what_);
    if (value == nullptr) return wrong(object_, "{} lacks \"{}\"", what_, name);
    if (value->kind != kind) return wrong(*value, "\"{}\" must be {}", name, text_of(kind));
    return value;
  }

  Result<int64_t> number(std::string_view name, int64_t low, int64_t high, std::optional<int64_t> otherwise = {}) {
    if (otherwise && find(name) == nullptr) return *otherwise;
    return number_in(*TUTTI_TRY(need(name, Kind::kInteger)), name, low, high);
  }
  // Empty where it is left out.
  Result<std::vector<int>> numbers(std::string_view name, int low, int high) {
    std::vector<int> all;
    if (find(name) == nullptr) return all;
    const JsonValue* list = TUTTI_TRY(need(name, Kind::kList));
    for (const JsonValue& item : list->items) {
      if (item.kind != Kind::kInteger) return wrong(item, "\"{}\" must have {} only", name, text_of(Kind::kInteger));
      all.push_back(static_cast<int>(TUTTI_TRY(number_in(item, name, low, high))));
    }
    return all;
  }
  Result<bool> flag(std::string_view name, std::optional<bool> otherwise = {}) {
    if (otherwise && find(name) == nullptr) return *otherwise;
    const JsonValue* value = TUTTI_TRY(need(name, Kind::kFlag));
    return value->number != 0;
  }
  Result<std::string_view> text(std::string_view name) {
    const JsonValue* value = TUTTI_TRY(need(name, Kind::kText));
    return std::string_view(value->text);
  }

  // After all members were asked for: refuses unknown and repeated ones.
  Status finish() const {
    for (const JsonValue& member : object_.items) {
      if (std::find(known_.begin(), known_.end(), member.name) == known_.end()) {
        return wrong(member, "{} has an unknown \"{}\"", what_, member.name);
      }
      if (object_.member(member.name) != &member) {
        return wrong(member, "{} has \"{}\" twice", what_, member.name);
      }
    }
    return {};
  }

 private:
  static Result<int64_t> number_in(const JsonValue& value, std::string_view name, int64_t low, int64_t high) {
    int64_t number = 0;
    bool fits = value.number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (fits) number = value.negative ? -static_cast<int64_t>(value.number) : static_cast<int64_t>(value.number);
    if (!fits || number < low || number > high)
      return wrong(value, "\"{}\" must be a number from {} to {}", name, low, high);
    return number;
  }
  static std::string_view text_of(Kind kind) {
    switch (kind) {
      case Kind::kFlag: return "true or false";
      case Kind::kInteger: return "a whole number";
      case Kind::kText: return "a text";
      case Kind::kList: return "a list";
      case Kind::kObject: return "an object";
      default: return "something else";
    }
  }

  const JsonValue& object_;
  std::string_view what_;
  std::vector<std::string_view> known_;
};

Result<Place> parse_place(const JsonValue& value) {
  constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {"input[", Space::kInput}, {"output[", Space::kOutput}, {"temp[", Space::kTemp}, {"arrival[", Space::kArrival}};
  std::string_view text = value.text;
  for (auto [prefix, space] : kSpaces) {
    if (value.kind != Kind::kText || !text.starts_with(prefix)) continue;
    int32_t index = -1;
    const char* end = text.data() + text.size();
    auto [stop, fault] = std::from_chars(text.data() + prefix.size(), end, index);
    if (fault == std::errc() && end - stop == 1 && *stop == ']' && index >= 0) return Place{space, index};
  }
  return wrong(value, "a place is a text like \"input[0]\", \"output[0]\", \"temp[0]\" or \"arrival[0]\"");
}

Result<std::vector<Place>> parse_places(Reader& reader, std::string_view name) {
  std::vector<Place> places;
  if (reader.find(name) == nullptr) return places;
  const JsonValue* list = TUTTI_TRY(reader.need(name, Kind::kList));
  for (const JsonValue& item : list->items) places.push_back(TUTTI_TRY(parse_place(item)));
  return places;
}

Result<Step> parse_step(const JsonValue& value) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  Reader reader(value, "the step");
  Step step;
  std::string_view kind = TUTTI_TRY(reader.text("kind"));
  if (kind == "copy") {
    step.kind = StepKind::kCopy;
  } else if (kind == "reduce") {
    step.kind = StepKind::kReduce;
  } else if (kind == "put") {
    step.kind = StepKind::kPut;
  } else if (kind == "wait") {
    step.kind = StepKind::kWait;
  } else {
    return wrong(value, "a step's kind is \"copy\", \"reduce\", \"put\" or \"wait\"");
  }
  step.peer = static_cast<int32_t>(TUTTI_TRY(reader.number("peer", 0, kMost, -1)));
  step.into = static_cast<int32_t>(TUTTI_TRY(reader.number("into", 0, kMost, kNoChunk)));
  step.chunk = static_cast<int32_t>(TUTTI_TRY(reader.number("chunk", 0, kMost, kNoChunk)));
  step.lag = static_cast<uint8_t>(TUTTI_TRY(reader.number("lag", 0, UINT8_MAX, 0)));
  step.finish = TUTTI_TRY(reader.flag("finish", false));
  step.sources = TUTTI_TRY(parse_places(reader, "sources"));
  step.destinations = TUTTI_TRY(parse_places(reader, "destinations"));
  TUTTI_TRY(reader.finish());
  return step;
}

Result<Section> parse_section(const JsonValue& value) {
  Reader reader(value, "the section");
  Section section;
  const JsonValue* steps = TUTTI_TRY(reader.need("steps", Kind::kList));
  for (const JsonValue& step : steps->items) section.steps.push_back(TUTTI_TRY(parse_step(step)));
  TUTTI_TRY(reader.finish());
  return section;
}

Result<Permission> parse_permission(Reader& reader, std::string_view name) {
  const JsonValue* value = reader.find(name);
  if (value == nullptr) return Permission::kNever;
  std::string_view word = TUTTI_TRY(reader.text(name));
  if (word == "never") return Permission::kNever;
  if (word == "unless_in_place") return Permission::kUnlessInPlace;
  if (word == "always") return Permission::kAlways;
  return wrong(*value, "\"{}\" is \"never\", \"unless_in_place\" or \"always\"", name);
}

Result<PlanShape> parse_shape(const JsonValue& value) {
  Reader reader(value, "\"shape\"");
  PlanShape shape;
  shape.algorithm = TUTTI_TRY(reader.text("algorithm"));
  auto collective = parse_collective(TUTTI_TRY(reader.text("collective")));
  if (!collective) return wrong(value, "\"collective\" names no collective");
  shape.collective = *collective;
  shape.nranks = static_cast<int>(TUTTI_TRY(reader.number("nranks", 1, kMaxPlanRanks)));
  shape.root = static_cast<int>(TUTTI_TRY(reader.number("root", -1, shape.nranks - 1, -1)));
  shape.channels = static_cast<int>(TUTTI_TRY(reader.number("channels", 1, kMaxPlanChannels)));
  shape.chunks = static_cast<int>(TUTTI_TRY(reader.number("chunks", 1, kMaxPlanChunks)));
  shape.slice_bytes = static_cast<uint64_t>(TUTTI_TRY(reader.number("slice_bytes", 64, kMaxPlanSliceBytes)));
  shape.groups = TUTTI_TRY(reader.numbers("groups", 1, shape.nranks));
  shape.order = TUTTI_TRY(reader.numbers("order", 0, shape.nranks - 1));
  shape.rendezvous = TUTTI_TRY(reader.number("rendezvous", 0, 1, 0)) != 0;
  shape.by_chunk = TUTTI_TRY(reader.number("by_chunk", 0, 1, 0)) != 0;
  shape.by_reference = TUTTI_TRY(parse_permission(reader, "by_reference"));
  shape.deliver_directly = TUTTI_TRY(parse_permission(reader, "deliver_directly"));
  TUTTI_TRY(reader.finish());
  Status status = check_shape(shape);
  if (!status.ok()) return wrong(value, "{}", status.message());
  return shape;
}

// parts[rank * channels + channel]; every part exactly once, in any order.
Result<std::vector<RankPlan>> parse_parts(const JsonValue& list, const PlanShape& shape) {
  size_t wanted = static_cast<size_t>(shape.nranks) * shape.channels;
  if (list.items.size() != wanted) {
    return wrong(list, "{} ranks with {} channels have {} parts, but there are {}", shape.nranks, shape.channels,
                 wanted, list.items.size());
  }
  std::vector<RankPlan> parts(wanted);
  std::vector<bool> seen(wanted);
  for (const JsonValue& item : list.items) {
    Reader reader(item, "the part");
    int64_t rank = TUTTI_TRY(reader.number("rank", 0, shape.nranks - 1));
    int64_t channel = TUTTI_TRY(reader.number("channel", 0, shape.channels - 1));
    size_t index = static_cast<size_t>(rank) * shape.channels + channel;
    if (seen[index]) return wrong(item, "the part of rank {}, channel {} is there twice", rank, channel);
    seen[index] = true;
    const JsonValue* sections = TUTTI_TRY(reader.need("sections", Kind::kList));
    for (const JsonValue& section : sections->items) parts[index].sections.push_back(TUTTI_TRY(parse_section(section)));
    TUTTI_TRY(reader.finish());
  }
  return parts;
}

}  // namespace

Result<Plan> parse_plan(std::string_view json) {
  JsonValue root = TUTTI_TRY(parse_json(json));
  Reader reader(root, "the plan");
  if (TUTTI_TRY(reader.text("format")) != "tutti.plan") return wrong(root, "\"format\" must be \"tutti.plan\"");
  TUTTI_TRY(reader.number("version", 1, 1));
  PlanShape shape = TUTTI_TRY(parse_shape(*TUTTI_TRY(reader.need("shape", Kind::kObject))));
  std::vector<RankPlan> parts = TUTTI_TRY(parse_parts(*TUTTI_TRY(reader.need("parts", Kind::kList)), shape));
  TUTTI_TRY(reader.finish());
  return Plan(std::move(shape), std::move(parts));
}

}  // namespace tutti
