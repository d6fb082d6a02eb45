#include "topology/json_locate.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tutti {
namespace {

using Json = nlohmann::json;

// The parser does not tell where it is, so it reads through an iterator that does.
class TracingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  TracingIterator(const char* at, const char** furthest) : at_(at), furthest_(furthest) {}
  reference operator*() const { return *at_; }
  TracingIterator& operator++() {
    *furthest_ = ++at_;
    return *this;
  }
  TracingIterator operator++(int) {
    TracingIterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const TracingIterator& a, const TracingIterator& b) { return a.at_ == b.at_; }

 private:
  const char* at_;
  const char** furthest_;
};

// Follows the path of each value and stops at the one that is looked for.
class Locator final : public Json::json_sax_t {
 public:
  explicit Locator(std::string_view target) : target_(target) {}
  bool found() const { return found_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(Json::number_integer_t) override { return value(); }
  bool number_unsigned(Json::number_unsigned_t) override { return value(); }
  bool number_float(Json::number_float_t, const std::string&) override { return value(); }
  bool string(std::string&) override { return value(); }
  bool binary(Json::binary_t&) override { return value(); }
  bool start_object(size_t) override { return open(false); }
  bool start_array(size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    frames_.back().key = name;
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  struct Frame {
    bool array = false;
    size_t index = 0;
    std::string key;
  };
  // No path of ours is deeper, so hostile nesting costs nothing.
  static constexpr size_t kMaxDepth = 16;

  bool here() const {
    if (frames_.size() > kMaxDepth) return false;
    std::string path;
    for (const Frame& frame : frames_) {
      path += frame.array ? fmt::format("[{}]", frame.index) : (path.empty() ? "" : ".") + frame.key;
    }
    return path == target_;
  }
  bool value() {
    found_ = here();
    if (!frames_.empty()) ++frames_.back().index;
    return !found_;
  }
  bool open(bool array) {
    found_ = here();
    frames_.push_back({array, 0, ""});
    return !found_;
  }
  bool close() {
    frames_.pop_back();
    if (!frames_.empty()) ++frames_.back().index;
    return true;
  }

  std::string_view target_;
  std::vector<Frame> frames_;
  bool found_ = false;
};

}  // namespace

int line_at(std::string_view text, size_t offset) {
  auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return 1 + static_cast<int>(std::count(text.begin(), end, '\n'));
}

int line_of(std::string_view text, std::string_view path) {
  Locator locator(path);
  const char* furthest = text.data();
  TracingIterator first(text.data(), &furthest);
  TracingIterator last(text.data() + text.size(), &furthest);
  Json::sax_parse(first, last, &locator);
  // The byte read last may already lie behind the value.
  size_t read = static_cast<size_t>(furthest - text.data());
  return locator.found() ? line_at(text, read == 0 ? 0 : read - 1) : 0;
}

}  // namespace tutti
