// JSON text as a tree in which every value knows its line, so that errors about values can name it. Whatever reads a
// document that people may write goes through here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti {

struct JsonValue {
  enum class Kind : uint8_t { kNull, kFlag, kInteger, kFraction, kText, kList, kObject };

  Kind kind = Kind::kNull;
  bool negative = false;  // kInteger: `number` is the magnitude
  int line = 0;           // where it begins, from 1
  uint64_t number = 0;    // kFlag: 0 or 1
  double fraction = 0;    // also of whole numbers that are written as 5e3, or that no integer can hold
  std::string text;
  std::string name;              // of a member of an object
  std::vector<JsonValue> items;  // of a list, or the members of an object, whose names may repeat

  // The first member called `name`; nullptr when there is none or this is no object.
  const JsonValue* member(std::string_view name) const;
  // The same, but this value when there is none: where an error about that member is.
  const JsonValue& member_or_self(std::string_view name) const;
};

// Bounded in time and memory by the text's size. Errors: "line 3: ..." for text that is no JSON, is nested deeper than
// anything we write, or is too large.
Result<JsonValue> parse_json(std::string_view text);

}  // namespace tutti
