// What tutti says on standard error: "[tutti 3] warning: ...". Never on the data path.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tutti {

enum class LogLevel : int { kError, kWarn, kInfo, kDebug };

void set_log_level(std::string_view level);  // "error", "warn", "info", "debug"
void set_log_rank(int rank);                 // shown in every line from now on
bool log_enabled(LogLevel level);
void log_line(LogLevel level, std::string_view text);
// Once per process for the same text.
void log_line_once(LogLevel level, std::string_view text);

template <typename... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) {
  log_line(LogLevel::kError, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warn(fmt::format_string<Args...> text, Args&&... args) {
  if (log_enabled(LogLevel::kWarn)) log_line(LogLevel::kWarn, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_warn_once(fmt::format_string<Args...> text, Args&&... args) {
  log_line_once(LogLevel::kWarn, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  if (log_enabled(LogLevel::kInfo)) log_line(LogLevel::kInfo, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) {
  if (log_enabled(LogLevel::kDebug)) log_line(LogLevel::kDebug, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace tutti
