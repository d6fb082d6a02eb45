#include <algorithm>
#include <charconv>

#include "discovery/facts.h"

namespace tutti {
namespace {

// "MemTotal:       49368168 kB"
uint64_t physical_memory(SystemView& system) {
  constexpr std::string_view kKey = "MemTotal:";
  std::string text = system.read_file("/proc/meminfo").value_or("");
  size_t at = text.find(kKey);
  if (at == std::string::npos) return 0;
  at = std::min(text.find_first_not_of(' ', at + kKey.size()), text.size());
  uint64_t kibibytes = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), kibibytes);
  return kibibytes * 1024;
}

}  // namespace

Limits discover_limits(SystemView& system, const ProcessFacts& process) {
  Limits limits;
  limits.memory_bytes = physical_memory(system);
  limits.memory_limit_bytes = cgroup_memory_limit(system);
  limits.memlock_bytes = process.memlock_bytes;
  limits.open_files = process.open_files;
  limits.dev_shm_bytes = system.filesystem_bytes("/dev/shm");
  auto scope = read_number(system, "/proc/sys/kernel/yama/ptrace_scope").value_or(0);
  limits.ptrace_scope = static_cast<int>(std::clamp<int64_t>(scope, 0, 3));
  return limits;
}

}  // namespace tutti
