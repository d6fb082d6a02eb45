#include "base/json_value.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace tutti {
namespace {

constexpr size_t kMaxTextBytes = size_t{64} << 20;
constexpr size_t kMaxValues = 4'000'000;
constexpr size_t kMaxDepth = 16;

// Where the parser is. The last character taken decides: a parser that looks one newline ahead is still on its line.
struct Position {
  int line = 1;
  bool after_newline = false;
  void take(char c) {
    line += after_newline ? 1 : 0;
    after_newline = c == '\n';
  }
};

// Characters that report to a Position as they are taken.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Position* position) : at_(at), position_(position) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    position_->take(*at_++);
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const CountingIterator& a, const CountingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  Position* position_;
};

// Receives nlohmann's events.
class Builder {
 public:
  explicit Builder(const Position& position) : position_(position) {}

  bool null() { return add(JsonValue::Kind::kNull) != nullptr; }
  bool boolean(bool value) { return number(JsonValue::Kind::kFlag, value ? 1 : 0, false); }
  bool number_integer(int64_t value) {
    bool negative = value < 0;
    return number(JsonValue::Kind::kInteger, negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value),
                  negative);
  }
  bool number_unsigned(uint64_t value) { return number(JsonValue::Kind::kInteger, value, false); }
  bool number_float(double value, const std::string&) {
    JsonValue* added = add(JsonValue::Kind::kFraction);
    if (added != nullptr) added->fraction = value;
    return added != nullptr;
  }
  bool string(std::string& value) {
    JsonValue* added = add(JsonValue::Kind::kText);
    if (added != nullptr) added->text = std::move(value);
    return added != nullptr;
  }
  bool binary(nlohmann::json::binary_t&) { return fail("binary data is not allowed"); }
  bool start_object(size_t) { return open(JsonValue::Kind::kObject); }
  bool start_array(size_t) { return open(JsonValue::Kind::kList); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    next_name_ = std::move(name);
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& problem) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing ..."
    std::string_view text = problem.what();
    size_t reason = text.find(": ");
    return fail(reason == std::string_view::npos ? text : text.substr(reason + 2));
  }
  bool fail(std::string_view reason) {
    if (status_.ok()) status_ = error(Code::kInvalidArgument, "line {}: {}", position_.line, reason);
    return false;
  }

  Status take_status() { return std::move(status_); }
  JsonValue take_root() { return std::move(root_); }

 private:
  bool number(JsonValue::Kind kind, uint64_t magnitude, bool negative) {
    JsonValue* added = add(kind);
    if (added == nullptr) return false;
    added->number = magnitude;
    added->negative = negative;
    return true;
  }

  // Values of open lists and objects do not move: only the innermost one grows.
  JsonValue* add(JsonValue::Kind kind) {
    if (++values_ > kMaxValues) {
      fail("there are too many values");
      return nullptr;
    }
    JsonValue* added = &root_;
    if (!open_.empty()) added = &open_.back()->items.emplace_back();
    added->kind = kind;
    added->name = std::exchange(next_name_, {});
    added->line = position_.line;
    return added;
  }
  bool open(JsonValue::Kind kind) {
    if (open_.size() == kMaxDepth) return fail("it is nested too deeply");
    JsonValue* added = add(kind);
    if (added != nullptr) open_.push_back(added);
    return added != nullptr;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const Position& position_;
  JsonValue root_;
  std::vector<JsonValue*> open_;
  std::string next_name_;  // "" inside of lists
  size_t values_ = 0;
  Status status_;
};

}  // namespace

const JsonValue* JsonValue::member(std::string_view name) const {
  if (kind != Kind::kObject) return nullptr;
  auto found = std::find_if(items.begin(), items.end(), [&](const JsonValue& item) { return item.name == name; });
  return found == items.end() ? nullptr : &*found;
}

const JsonValue& JsonValue::member_or_self(std::string_view name) const {
  const JsonValue* found = member(name);
  return found == nullptr ? *this : *found;
}

Result<JsonValue> parse_json(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    return error(Code::kInvalidArgument, "line 1: the text has {} bytes; the most is {}", text.size(), kMaxTextBytes);
  }
  Position position;
  Builder builder(position);
  bool parsed = false;
  try {
    CountingIterator begin(text.data(), &position), end(text.data() + text.size(), &position);
    parsed = nlohmann::json::sax_parse(begin, end, &builder);
  } catch (const std::exception& problem) {
    builder.fail(problem.what());
  }
  Status status = builder.take_status();
  if (!status.ok()) return status;
  if (!parsed) return error(Code::kInvalidArgument, "line {}: this is no JSON", position.line);
  return builder.take_root();
}

}  // namespace tutti
