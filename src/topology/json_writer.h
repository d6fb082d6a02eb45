// Writes a described struct (topology/describe.h) as JSON, fields in the order of the description.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cpu_list.h"
#include "topology/inventory.h"

namespace tutti {

class JsonWriter {
 public:
  using Json = nlohmann::ordered_json;
  static constexpr bool kReads = false;

  JsonWriter() : json_(Json::object()) {}

  void text(std::string_view name, const std::string& value) { put(name, value); }
  void flag(std::string_view name, bool value) { put(name, value); }
  template <typename T>
  void number(std::string_view name, T value, int64_t /*least*/, uint64_t /*most*/) {
    put(name, value);
  }
  // UINT64_MAX is "unlimited".
  void limit(std::string_view name, uint64_t value) {
    value == std::numeric_limits<uint64_t>::max() ? put(name, "unlimited") : put(name, value);
  }
  void figure(std::string_view name, const Figure& figure) {
    put(name, Json{{"value", figure.value}, {"origin", std::string(name_of(figure.origin))}});
  }
  void cpus(std::string_view name, const std::vector<int>& cpus) { put(name, format_cpu_list(cpus)); }
  void texts(std::string_view name, const std::vector<std::string>& values) { put(name, values); }
  void text_map(std::string_view name, const std::map<std::string, std::string>& values) { put_map(name, values); }
  void number_map(std::string_view name, const std::map<std::string, uint64_t>& values) { put_map(name, values); }
  template <typename T>
  void object(std::string_view name, const T& value) {
    put(name, describe_all(value));
  }
  template <typename T>
  void list(std::string_view name, const std::vector<T>& values) {
    Json array = Json::array();
    for (const T& value : values) array.push_back(describe_all(value));
    put(name, std::move(array));
  }

  Json take() && { return std::move(json_); }

 private:
  template <typename T>
  static Json describe_all(const T& value) {
    JsonWriter writer;
    describe(writer, value);
    return std::move(writer).take();
  }
  // An empty map is {} too, not null.
  template <typename T>
  void put_map(std::string_view name, const std::map<std::string, T>& values) {
    Json object = Json::object();
    for (const auto& [key, value] : values) object[key] = value;
    put(name, std::move(object));
  }
  template <typename T>
  void put(std::string_view name, T&& value) {
    json_[std::string(name)] = std::forward<T>(value);
  }

  Json json_;
};

}  // namespace tutti
