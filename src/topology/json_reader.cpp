#include "topology/json_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/config.h"
#include "topology/cpu_list.h"

namespace tutti {
namespace {

using Kind = JsonValue::Kind;

std::string as_json(const std::string& text) {
  using Json = nlohmann::json;
  constexpr size_t kLongest = 40;
  std::string json = Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
  return json.size() > kLongest ? json.substr(0, kLongest) + "..." : json;
}

// A piece of the document for an error message.
std::string excerpt(const JsonValue& json) {
  switch (json.kind) {
    case Kind::kNull: return "null";
    case Kind::kFlag: return json.number != 0 ? "true" : "false";
    case Kind::kInteger: return fmt::format("{}{}", json.negative ? "-" : "", json.number);
    case Kind::kFraction: return fmt::format("{}", json.fraction);
    case Kind::kText: return as_json(json.text);
    case Kind::kList: return "a list";
    case Kind::kObject: return "an object";
  }
  return "nothing";
}

// Numbers like 2.5e9 are whole too. As two's complement.
std::optional<uint64_t> whole(const JsonValue& json, int64_t least, uint64_t most) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  uint64_t number = json.number;
  if (json.kind == Kind::kFraction) {
    if (!(json.fraction >= 0 && json.fraction <= kExact) || json.fraction != std::floor(json.fraction)) return {};
    number = static_cast<uint64_t>(json.fraction);
  } else if (json.kind != Kind::kInteger) {
    return {};
  }
  bool fits = json.negative ? least < 0 && number <= 0 - static_cast<uint64_t>(least)
                            : number <= most && (least <= 0 || number >= static_cast<uint64_t>(least));
  if (!fits) return {};
  return json.negative ? 0 - number : number;
}

}  // namespace

JsonReader::JsonReader(const JsonValue& json, std::string path, std::optional<JsonFault>& fault)
    : json_(json), path_(std::move(path)), fault_(fault) {
  if (json_.kind != Kind::kObject) refuse("", fmt::format("must be an object, but is {}", excerpt(json_)));
}

std::string JsonReader::path_of(std::string_view name) const {
  if (name.empty()) return path_;
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void JsonReader::refuse(std::string_view name, std::string reason) {
  refuse_at(json_.member_or_self(name), name, std::move(reason));
}

void JsonReader::refuse_at(const JsonValue& where, std::string_view name, std::string reason) {
  if (!fault_) fault_ = JsonFault{where.line, path_of(name), std::move(reason)};
}

const JsonValue* JsonReader::find(std::string_view name) {
  names_.push_back(name);
  return fault_ ? nullptr : json_.member(name);
}

const JsonValue* JsonReader::find_list(std::string_view name) {
  const JsonValue* found = find(name);
  if (found == nullptr || found->kind == Kind::kList) return found;
  refuse(name, fmt::format("must be a list, but is {}", excerpt(*found)));
  return nullptr;
}

const JsonValue* JsonReader::find_object(std::string_view name) {
  const JsonValue* found = find(name);
  if (found == nullptr || found->kind == Kind::kObject) return found;
  refuse(name, fmt::format("must be an object, but is {}", excerpt(*found)));
  return nullptr;
}

std::optional<uint64_t> JsonReader::whole_number(std::string_view name, int64_t least, uint64_t most) {
  const JsonValue* found = find(name);
  if (found == nullptr) return std::nullopt;
  auto value = whole(*found, least, most);
  if (!value) {
    refuse(name, fmt::format("must be a whole number from {} to {}, but is {}", least, most, excerpt(*found)));
  }
  return value;
}

void JsonReader::text(std::string_view name, std::string& value) {
  const JsonValue* found = find(name);
  if (found == nullptr) return;
  if (found->kind != Kind::kText) return refuse(name, fmt::format("must be a text, but is {}", excerpt(*found)));
  value = found->text;
}

void JsonReader::flag(std::string_view name, bool& value) {
  const JsonValue* found = find(name);
  if (found == nullptr) return;
  if (found->kind != Kind::kFlag) {
    return refuse(name, fmt::format("must be true or false, but is {}", excerpt(*found)));
  }
  value = found->number != 0;
}

void JsonReader::limit(std::string_view name, uint64_t& value) {
  constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
  const JsonValue* found = find(name);
  if (found != nullptr && found->kind == Kind::kText && found->text == "unlimited") {
    value = kUnlimited;
    return;
  }
  number(name, value, 0, kUnlimited);
}

void JsonReader::figure(std::string_view name, Figure& figure) {
  const JsonValue* found = find(name);
  if (found == nullptr) return;
  JsonReader reader(*found, path_of(name), fault_);
  std::string origin(name_of(Origin::kUser));  // who writes only a value means their own
  reader.number("value", figure.value, 1, kMostOfAFigure);
  reader.text("origin", origin);
  reader.finish();
  constexpr std::array kOrigins = {Origin::kDefault, Origin::kSpec, Origin::kProbe, Origin::kUser};
  auto named = std::find_if(kOrigins.begin(), kOrigins.end(), [&](Origin each) { return name_of(each) == origin; });
  if (named == kOrigins.end()) {
    return reader.refuse("origin", "must be one of \"default\", \"spec\", \"probe\", \"user\"");
  }
  figure.origin = *named;
}

void JsonReader::cpus(std::string_view name, std::vector<int>& cpus) {
  std::string list;
  text(name, list);
  if (fault_ || !has(name)) return;
  auto parsed = parse_cpu_list(list);
  if (!parsed) {
    return refuse(name, fmt::format("must be a list of CPU numbers such as \"0-3,8\" below {}, but is {}", kMaxCpus,
                                    as_json(list)));
  }
  cpus = std::move(*parsed);
}

void JsonReader::texts(std::string_view name, std::vector<std::string>& values) {
  const JsonValue* found = find_list(name);
  if (found == nullptr) return;
  values.clear();
  for (const JsonValue& value : found->items) {
    if (value.kind != Kind::kText) {
      return refuse_at(value, name, fmt::format("must be a list of texts, but has {}", excerpt(value)));
    }
    values.push_back(value.text);
  }
}

void JsonReader::text_map(std::string_view name, std::map<std::string, std::string>& values) {
  const JsonValue* found = find_object(name);
  if (found == nullptr) return;
  values.clear();
  for (const JsonValue& value : found->items) {
    if (value.kind != Kind::kText) {
      return refuse_at(value, name, fmt::format("must hold texts, but \"{}\" is {}", value.name, excerpt(value)));
    }
    if (!values.emplace(value.name, value.text).second) {
      return refuse_at(value, name, fmt::format("has \"{}\" twice", value.name));
    }
  }
}

void JsonReader::number_map(std::string_view name, std::map<std::string, uint64_t>& values) {
  const JsonValue* found = find_object(name);
  if (found == nullptr) return;
  values.clear();
  for (const JsonValue& value : found->items) {
    auto number = whole(value, 0, std::numeric_limits<uint64_t>::max());
    if (!number) {
      return refuse_at(value, name,
                       fmt::format("must hold whole numbers, but \"{}\" is {}", value.name, excerpt(value)));
    }
    if (!values.emplace(value.name, *number).second) {
      return refuse_at(value, name, fmt::format("has \"{}\" twice", value.name));
    }
  }
}

void JsonReader::finish() {
  if (fault_) return;
  for (const JsonValue& member : json_.items) {
    if (std::find(names_.begin(), names_.end(), member.name) == names_.end()) {
      auto near = nearest(member.name, names_);
      std::string hint = near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near);
      return refuse_at(member, member.name, "is no field of this format" + hint);
    }
    if (json_.member(member.name) != &member) return refuse_at(member, member.name, "is there twice");
  }
}

Result<std::string> document_format(std::string_view text) {
  JsonValue json = TUTTI_TRY(parse_json(text));
  const JsonValue* format = json.member("format");
  return format != nullptr && format->kind == Kind::kText ? format->text : std::string();
}

Status document_error(const JsonFault& fault) {
  std::string_view subject = fault.path.empty() ? "the document" : std::string_view(fault.path);
  return error(Code::kInvalidArgument, "line {}: {} {}", fault.line, subject, fault.reason);
}

}  // namespace tutti
