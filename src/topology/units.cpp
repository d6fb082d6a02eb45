#include "topology/units.h"

#include <fmt/format.h>

#include <array>

namespace tutti {
namespace {

// In the largest unit that leaves at least 1; "11.2", "112", "32" rather than "32.0".
template <size_t N>
std::string scaled(double value, double base, const std::array<std::string_view, N>& units) {
  size_t unit = 0;
  while (value >= base && unit + 1 < N) {
    value /= base;
    ++unit;
  }
  std::string number = fmt::format("{:.{}f}", value, value >= 99.95 ? 0 : 1);
  if (number.ends_with(".0")) number.resize(number.size() - 2);
  return fmt::format("{} {}", number, units[unit]);
}

}  // namespace

std::string bytes_text(uint64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024,
                std::array<std::string_view, 6>{"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::string rate_text(uint64_t bytes_per_s) {
  return scaled(static_cast<double>(bytes_per_s), 1000,
                std::array<std::string_view, 5>{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"});
}

std::string time_text(uint64_t ns) {
  return scaled(static_cast<double>(ns), 1000, std::array<std::string_view, 4>{"ns", "us", "ms", "s"});
}

std::string count_text(uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tutti
