// JSON text as a tree in which every value knows its line, so that errors about values can name it.
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
  int line = 0;
  bool negative = false;      // kInteger: `number` is the magnitude
  uint64_t number = 0;        // kFlag: 0 or 1
  std::string text;
  std::string name;               // of a member of an object
  std::vector<JsonValue> items;   // of a list, or the members of an object, whose names may repeat
};

// Bounded in time and memory by the text's size. Errors: "line 3: ..." for text that is no JSON, is nested deeper than
// anything we write, or is too large.
Result<JsonValue> parse_json_lines(std::string_view text);

}  // namespace tutti
