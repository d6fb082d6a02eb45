// The memory limit of this process's control groups, as cgroups(7) and the kernel's cgroup-v2.rst describe the files.
#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "discovery/facts.h"

namespace tutti {
namespace {

// A mounted hierarchy that controls memory.
struct Hierarchy {
  std::string root;  // the group that is mounted
  std::string mount_point;
  bool version2 = false;
};

bool has_word(const std::string& list, std::string_view word) {
  std::istringstream words(list);
  for (std::string each; std::getline(words, each, ',');) {
    if (each == word) return true;
  }
  return false;
}

// From a line of mountinfo: id parent major:minor root mount-point options [optional...] - type source super-options
std::optional<Hierarchy> memory_hierarchy(const std::string& mount) {
  std::istringstream words(mount);
  std::string skipped, root, mount_point, type, super_options;
  words >> skipped >> skipped >> skipped >> root >> mount_point;
  while (words >> skipped && skipped != "-") {
  }
  words >> type >> skipped >> super_options;
  if (type == "cgroup2") return Hierarchy{root, mount_point, true};
  if (type == "cgroup" && has_word(super_options, "memory")) return Hierarchy{root, mount_point, false};
  return std::nullopt;
}

// This process's group: the line "0::/path" (version 2) or "4:memory:/path" (version 1); "" when there is none.
std::string group_of(const std::string& cgroups, bool version2) {
  std::istringstream lines(cgroups);
  for (std::string line; std::getline(lines, line);) {
    size_t first = line.find(':');
    size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers = line.substr(first + 1, second - first - 1);
    if (version2 ? controllers.empty() : has_word(controllers, "memory")) return line.substr(second + 1);
  }
  return "";
}

// The group's path below the mount point; "" when the mount shows only the group itself or one beside it.
std::string below(const std::string& group, const std::string& root) {
  if (root == "/") return group == "/" ? "" : group;
  if (group.starts_with(root) && (group.size() == root.size() || group[root.size()] == '/'))
    return group.substr(root.size());
  return "";
}

}  // namespace

uint64_t cgroup_memory_limit(SystemView& system) {
  constexpr int64_t kNoLimit = int64_t{1} << 62;  // version 1 writes the largest multiple of a page; version 2 "max"
  int64_t least = kNoLimit;
  std::string cgroups = system.read_file("/proc/self/cgroup").value_or("");
  for (const std::string& mount : system.cgroup_mounts()) {
    auto hierarchy = memory_hierarchy(mount);
    if (!hierarchy) continue;
    std::string file = hierarchy->version2 ? "/memory.max" : "/memory.limit_in_bytes";
    // A limit of any ancestor holds too.
    std::string path = below(group_of(cgroups, hierarchy->version2), hierarchy->root);
    while (true) {
      least = std::min(least, read_number(system, hierarchy->mount_point + path + file).value_or(kNoLimit));
      if (path.empty()) break;
      path.resize(path.find_last_of('/'));
    }
  }
  return least >= kNoLimit || least < 0 ? 0 : static_cast<uint64_t>(least);
}

}  // namespace tutti
