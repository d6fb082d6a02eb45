#include "topology/cpu_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace tutti {
namespace {

std::optional<int> parse_cpu(std::string_view text) {
  int cpu = -1;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), cpu);
  if (failure != std::errc() || end != text.data() + text.size() || cpu < 0 || cpu >= kMaxCpus) return std::nullopt;
  return cpu;
}

}  // namespace

std::string format_cpu_list(std::span<const int> cpus) {
  std::string text;
  for (size_t i = 0; i < cpus.size();) {
    size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", cpus[i]) : fmt::format("{}-{}", cpus[i], cpus[last]);
    i = last + 1;
  }
  return text;
}

std::optional<std::vector<int>> parse_cpu_list(std::string_view text) {
  std::vector<bool> present;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view range = text.substr(0, comma);
    size_t dash = std::min(range.find('-'), range.size());
    auto first = parse_cpu(range.substr(0, dash));
    auto last = dash == range.size() ? first : parse_cpu(range.substr(dash + 1));
    if (!first || !last || *last < *first) return std::nullopt;
    if (present.size() <= static_cast<size_t>(*last)) present.resize(*last + 1);
    std::fill(present.begin() + *first, present.begin() + *last + 1, true);
    if (comma + 1 == text.size()) return std::nullopt;  // ends in a comma
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  std::vector<int> cpus;
  for (size_t cpu = 0; cpu < present.size(); ++cpu) {
    if (present[cpu]) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

}  // namespace tutti
