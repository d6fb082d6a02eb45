#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>

namespace tutti {
namespace {

// The one logger of the process; spdlog's own registry is left to the host program.
struct Logger {
  std::atomic<int> rank{-1};
  std::mutex mutex;
  std::set<std::string, std::less<>> said;
  spdlog::logger sink{"tutti", std::make_shared<spdlog::sinks::stderr_sink_mt>()};

  Logger() {
    sink.set_pattern("%v");
    sink.set_level(spdlog::level::warn);
    sink.flush_on(spdlog::level::debug);
  }
};

Logger& logger() {
  static Logger* const instance = new Logger;  // lives until the process ends: destructors of other libraries may log
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kDebug: return spdlog::level::debug;
  }
  return spdlog::level::err;
}

std::string_view word_for(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarn: return "warning";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "error";
}

}  // namespace

void set_log_level(std::string_view level) {
  auto parsed = level == "debug"  ? LogLevel::kDebug
                : level == "info" ? LogLevel::kInfo
                : level == "warn" ? LogLevel::kWarn
                                  : LogLevel::kError;
  logger().sink.set_level(to_spdlog(parsed));
}

void set_log_rank(int rank) { logger().rank.store(rank, std::memory_order_relaxed); }

bool log_enabled(LogLevel level) { return logger().sink.should_log(to_spdlog(level)); }

void log_line(LogLevel level, std::string_view text) {
  int rank = logger().rank.load(std::memory_order_relaxed);
  auto who = rank < 0 ? std::string("tutti") : fmt::format("tutti {}", rank);
  logger().sink.log(to_spdlog(level), fmt::format("[{}] {}: {}", who, word_for(level), text));
}

void log_line_once(LogLevel level, std::string_view text) {
  {
    std::lock_guard lock(logger().mutex);
    if (!logger().said.emplace(text).second) return;
  }
  log_line(level, text);
}

}  // namespace tutti
