// Reads a described struct (topology/describe.h) from JSON. Every field is checked for type and range, and a name that
// the description does not have is an error too, so that a slip in a hand-written file is never silently ignored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_value.h"
#include "base/status.h"
#include "topology/inventory.h"

namespace tutti {

// The first thing that is wrong in a document, its line and its path ("hosts[0].cpu.cores").
struct JsonFault {
  int line = 0;
  std::string path;
  std::string reason;
};

class JsonReader {
 public:
  static constexpr bool kReads = true;

  // `json` and `fault` are borrowed. Once `fault` is set nothing more is read.
  JsonReader(const JsonValue& json, std::string path, std::optional<JsonFault>& fault);

  // A name that is absent leaves the field as it is.
  void text(std::string_view name, std::string& value);
  void flag(std::string_view name, bool& value);
  template <typename T>
  void number(std::string_view name, T& value, int64_t least, uint64_t most) {
    if (auto read = whole_number(name, least, most)) value = static_cast<T>(*read);
  }
  void limit(std::string_view name, uint64_t& value);
  void figure(std::string_view name, Figure& figure);
  void cpus(std::string_view name, std::vector<int>& cpus);
  void texts(std::string_view name, std::vector<std::string>& values);
  void text_map(std::string_view name, std::map<std::string, std::string>& values);
  void number_map(std::string_view name, std::map<std::string, uint64_t>& values);
  template <typename T>
  void object(std::string_view name, T& value) {
    if (const JsonValue* found = find(name)) read_all(*found, path_of(name), value);
  }
  template <typename T>
  void list(std::string_view name, std::vector<T>& values) {
    const JsonValue* found = find_list(name);
    if (found == nullptr) return;
    values.clear();
    for (size_t i = 0; i < found->items.size() && !fault_; ++i) {
      read_all(found->items[i], fmt::format("{}[{}]", path_of(name), i), values.emplace_back());
    }
  }

  // Sets the fault of a field, for rules that are not about one field's type.
  void refuse(std::string_view name, std::string reason);
  bool has(std::string_view name) const { return json_.member(name) != nullptr; }
  // Call when all fields were described: refuses names that none of them has, and repeated ones.
  void finish();

 private:
  template <typename T>
  void read_all(const JsonValue& json, std::string path, T& value) {
    JsonReader reader(json, std::move(path), fault_);
    describe(reader, value);
    reader.finish();
  }
  void refuse_at(const JsonValue& where, std::string_view name, std::string reason);
  std::string path_of(std::string_view name) const;
  const JsonValue* find(std::string_view name);
  const JsonValue* find_list(std::string_view name);
  const JsonValue* find_object(std::string_view name);
  // As two's complement; nullopt when absent or refused.
  std::optional<uint64_t> whole_number(std::string_view name, int64_t least, uint64_t most);

  const JsonValue& json_;
  std::string path_;
  std::optional<JsonFault>& fault_;
  std::vector<std::string_view> names_;
};

// The text of the field "format", "" when there is none.
Result<std::string> document_format(std::string_view text);

// "line 12: cpu.cores must be ...".
Status document_error(const JsonFault& fault);

// A described struct T with the head {"format": `format`, "version": `version`}.
template <typename T>
Result<T> read_document(const JsonValue& json, std::string_view format, int version) {
  std::optional<JsonFault> fault;
  JsonReader reader(json, "", fault);
  std::string found_format;
  int found_version = 0;
  reader.text("format", found_format);
  if (found_format != format) {
    reader.refuse(reader.has("format") ? "format" : "", fmt::format("must have \"format\": \"{}\"", format));
  }
  reader.number("version", found_version, 0, INT32_MAX);
  if (found_version != version) {
    reader.refuse(reader.has("version") ? "version" : "", fmt::format("must have \"version\": {}", version));
  }
  T value;
  describe(reader, value);
  reader.finish();
  if (fault) return document_error(*fault);
  return value;
}

template <typename T>
Result<T> read_document(std::string_view text, std::string_view format, int version) {
  return read_document<T>(TUTTI_TRY(parse_json(text)), format, version);
}

}  // namespace tutti
