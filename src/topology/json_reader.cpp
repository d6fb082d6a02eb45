#include "topology/json_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/config.h"
#include "topology/cpu_list.h"
#include "topology/json_locate.h"

namespace tutti {
namespace {

using Json = nlohmann::json;

// A piece of the document for an error message.
std::string excerpt(const Json& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  constexpr size_t kLongest = 40;
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

// Numbers like 2.5e9 are whole too.
std::optional<uint64_t> whole(const Json& json, int64_t least, uint64_t most) {
  if (json.is_number_unsigned()) {
    auto value = json.get<uint64_t>();
    return value <= most && (least <= 0 || value >= static_cast<uint64_t>(least)) ? std::optional(value) : std::nullopt;
  }
  if (json.is_number_integer()) {  // negative
    auto value = json.get<int64_t>();
    return value >= least ? std::optional(static_cast<uint64_t>(value)) : std::nullopt;
  }
  if (json.is_number_float()) {
    constexpr double kExact = 9007199254740992.0;  // 2^53
    auto value = json.get<double>();
    if (!(value >= 0 && value <= kExact) || value != std::floor(value)) return std::nullopt;
    return whole(Json(static_cast<uint64_t>(value)), least, most);
  }
  return std::nullopt;
}

}  // namespace

JsonReader::JsonReader(const Json& json, std::string path, std::optional<JsonFault>& fault)
    : json_(json), path_(std::move(path)), fault_(fault) {
  if (!json_.is_object() && !fault_)
    fault_ = JsonFault{path_, fmt::format("must be an object, but is {}", excerpt(json_))};
}

std::string JsonReader::path_of(std::string_view name) const {
  if (name.empty()) return path_;
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void JsonReader::refuse(std::string_view name, std::string reason) {
  if (!fault_) fault_ = JsonFault{path_of(name), std::move(reason)};
}

const Json* JsonReader::find(std::string_view name) {
  names_.push_back(name);
  if (fault_) return nullptr;
  auto found = json_.find(name);
  return found == json_.end() ? nullptr : &*found;
}

const Json* JsonReader::find_list(std::string_view name) {
  const Json* found = find(name);
  if (found == nullptr || found->is_array()) return found;
  refuse(name, fmt::format("must be a list, but is {}", excerpt(*found)));
  return nullptr;
}

const Json* JsonReader::find_object(std::string_view name) {
  const Json* found = find(name);
  if (found == nullptr || found->is_object()) return found;
  refuse(name, fmt::format("must be an object, but is {}", excerpt(*found)));
  return nullptr;
}

std::optional<uint64_t> JsonReader::whole_number(std::string_view name, int64_t least, uint64_t most) {
  const Json* found = find(name);
  if (found == nullptr) return std::nullopt;
  auto value = whole(*found, least, most);
  if (!value)
    refuse(name, fmt::format("must be a whole number from {} to {}, but is {}", least, most, excerpt(*found)));
  return value;
}

void JsonReader::text(std::string_view name, std::string& value) {
  const Json* found = find(name);
  if (found == nullptr) return;
  if (!found->is_string()) return refuse(name, fmt::format("must be a text, but is {}", excerpt(*found)));
  value = found->get_ref<const std::string&>();
}

void JsonReader::flag(std::string_view name, bool& value) {
  const Json* found = find(name);
  if (found == nullptr) return;
  if (!found->is_boolean()) return refuse(name, fmt::format("must be true or false, but is {}", excerpt(*found)));
  value = found->get<bool>();
}

void JsonReader::limit(std::string_view name, uint64_t& value) {
  constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
  if (!fault_ && has(name) && json_[std::string(name)] == "unlimited") {
    find(name);
    value = kUnlimited;
    return;
  }
  number(name, value, 0, kUnlimited);
}

void JsonReader::figure(std::string_view name, Figure& figure) {
  constexpr uint64_t kMost = 1'000'000'000'000'000;  // 1 PB/s or 11 days: sums and products of figures stay in range
  const Json* found = find(name);
  if (found == nullptr) return;
  JsonReader reader(*found, path_of(name), fault_);
  std::string origin(name_of(Origin::kUser));  // who writes only a value means their own
  reader.number("value", figure.value, 1, kMost);
  reader.text("origin", origin);
  reader.finish();
  constexpr std::array kOrigins = {Origin::kDefault, Origin::kSpec, Origin::kProbe, Origin::kUser};
  auto named = std::find_if(kOrigins.begin(), kOrigins.end(), [&](Origin each) { return name_of(each) == origin; });
  if (named == kOrigins.end())
    return reader.refuse("origin", "must be one of \"default\", \"spec\", \"probe\", \"user\"");
  figure.origin = *named;
}

void JsonReader::cpus(std::string_view name, std::vector<int>& cpus) {
  std::string list;
  text(name, list);
  if (fault_ || !has(name)) return;
  auto parsed = parse_cpu_list(list);
  if (!parsed) {
    return refuse(name, fmt::format("must be a list of CPU numbers such as \"0-3,8\" below {}, but is {}", kMaxCpus,
                                    excerpt(Json(list))));
  }
  cpus = std::move(*parsed);
}

void JsonReader::texts(std::string_view name, std::vector<std::string>& values) {
  const Json* found = find_list(name);
  if (found == nullptr) return;
  values.clear();
  for (const Json& value : *found) {
    if (!value.is_string()) return refuse(name, fmt::format("must be a list of texts, but has {}", excerpt(value)));
    values.push_back(value.get_ref<const std::string&>());
  }
}

void JsonReader::text_map(std::string_view name, std::map<std::string, std::string>& values) {
  const Json* found = find_object(name);
  if (found == nullptr) return;
  values.clear();
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) return refuse(name, fmt::format("must hold texts, but \"{}\" is {}", key, excerpt(value)));
    values[key] = value.get_ref<const std::string&>();
  }
}

void JsonReader::number_map(std::string_view name, std::map<std::string, uint64_t>& values) {
  const Json* found = find_object(name);
  if (found == nullptr) return;
  values.clear();
  for (const auto& [key, value] : found->items()) {
    auto number = whole(value, 0, std::numeric_limits<uint64_t>::max());
    if (!number) return refuse(name, fmt::format("must hold whole numbers, but \"{}\" is {}", key, excerpt(value)));
    values[key] = *number;
  }
}

void JsonReader::finish() {
  if (fault_) return;
  for (const auto& [name, value] : json_.items()) {
    if (std::find(names_.begin(), names_.end(), name) != names_.end()) continue;
    auto near = nearest(name, names_);
    return refuse(name, near.empty() ? "is no field of this format"
                                     : fmt::format("is no field of this format; did you mean \"{}\"?", near));
  }
}

Result<Json> parse_json(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& failure) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing ... - unexpected
    // ..."
    std::string_view reason = failure.what();
    size_t detail = reason.find("syntax error");
    if (detail != std::string_view::npos) reason.remove_prefix(detail);
    return error(Code::kInvalidArgument, "line {}: {}", line_at(text, failure.byte == 0 ? 0 : failure.byte - 1),
                 reason);
  } catch (const Json::exception& failure) {
    return error(Code::kInvalidArgument, "line 1: {}", failure.what());
  }
}

Result<std::string> document_format(std::string_view text) {
  Json json = TUTTI_TRY(parse_json(text));
  if (!json.is_object() || !json.contains("format") || !json["format"].is_string()) return std::string();
  return json["format"].get<std::string>();
}

Status document_error(std::string_view text, const JsonFault& fault) {
  std::string_view subject = fault.path.empty() ? "the document" : std::string_view(fault.path);
  return error(Code::kInvalidArgument, "line {}: {} {}", std::max(1, line_of(text, fault.path)), subject, fault.reason);
}

}  // namespace tutti
