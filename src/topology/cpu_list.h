// Lists of CPU numbers in the kernel's notation: "0-3,8".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

inline constexpr int kMaxCpus = 1 << 16;

// `cpus` ascending and without repetition; "" for none.
std::string format_cpu_list(std::span<const int> cpus);

// Ascending and without repetition. nullopt: not such a list, or a number of kMaxCpus or more.
std::optional<std::vector<int>> parse_cpu_list(std::string_view text);

}  // namespace tutti
