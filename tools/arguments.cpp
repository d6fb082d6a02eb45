// What the command lines of all subcommands have in common.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string_view>

#include "tool.h"

namespace tutti::tool {
namespace {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// The power of 1024 that a unit stands for: "K", "KB" and "KiB" in either case; "" is 0.
std::optional<int> power_of_unit(std::string unit) {
  if (unit.empty()) return 0;
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  size_t found = std::string_view("kmgt").find(unit.front());
  std::string_view rest = std::string_view(unit).substr(1);
  if (found == unit.npos || !(rest.empty() || rest == "b" || rest == "ib")) return std::nullopt;
  return static_cast<int>(found) + 1;
}

// "ranks" of "--ranks=3", and of "-ranks", where CLI11 sees a short option.
std::string_view bare(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return word.substr(0, word.find('='));
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& words) {
  std::string best;
  size_t limit = word.size() < 4 ? 2 : 3;  // farther words are no typing errors
  for (const std::string& candidate : words) {
    bool abbreviated = word.size() > 2 && candidate.starts_with(word);
    size_t distance = abbreviated ? 1 : edit_distance(word, candidate);
    if (distance < limit) limit = distance, best = candidate;
  }
  return best;
}

std::string path_of(const CLI::App& command) {
  const CLI::App* above = command.get_parent();
  return above == nullptr ? command.get_name() : fmt::format("{} {}", path_of(*above), command.get_name());
}

std::string no_such_option(const CLI::App& command, std::string_view word) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  }
  std::string_view name = bare(word);
  std::string near = name.size() > 1 ? nearest(name, names) : "";
  std::string_view shown = word.substr(0, word.find('='));
  if (near.empty()) return fmt::format("there is no option {}; `{} --help` lists them", shown, path_of(command));
  return fmt::format("there is no option {}; did you mean --{}?", shown, near);
}

uint64_t parse_size(std::string_view flag, const std::string& text) {
  constexpr uint64_t kMost = uint64_t{1} << 50;
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  auto [unit, failure] = std::from_chars(text.data(), end, number);
  auto power = power_of_unit({unit, end});
  bool too_large = failure == std::errc::result_out_of_range || (power && number > kMost >> 10 * *power);
  if (failure == std::errc::invalid_argument || !power || too_large) {
    fail(kUsageError, "{} {}: expected a number of bytes such as 8, 64K, 256M or 1G{}", flag, text,
         power && too_large ? ", at most 1024T" : "");
  }
  return number << 10 * *power;
}

}  // namespace tutti::tool
