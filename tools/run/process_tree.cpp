#include "process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "fd.h"

namespace tutti::tool {
namespace {

// /proc/PID/stat is "pid (name) state ppid pgrp ..."; the name may itself hold spaces and parentheses.
std::optional<Process> read_process(const char* pid_text) {
  Fd file(::open(("/proc/" + std::string(pid_text) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  char text[512];
  ssize_t size = ::read(file.get(), text, sizeof text - 1);
  if (size <= 0) return std::nullopt;
  text[size] = '\0';
  const char* name_end = std::strrchr(text, ')');
  Process process;
  char state = 0;
  if (!name_end || std::sscanf(name_end + 1, " %c %d %d", &state, &process.parent, &process.group) != 3) {
    return std::nullopt;
  }
  if (state == 'Z' || state == 'X') return std::nullopt;
  process.pid = std::atoi(pid_text);
  return process;
}

std::vector<Process> all_processes() {
  std::vector<Process> processes;
  std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return processes;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    if (auto process = read_process(entry->d_name)) processes.push_back(*process);
  }
  return processes;
}

bool has_children() {
  siginfo_t unused{};
  return ::waitid(P_ALL, 0, &unused, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

}  // namespace

std::vector<Process> descendants() {
  if (!has_children()) return {};  // without a look at all processes of the host
  std::vector<Process> all = all_processes();
  auto by_parent = [](const Process& a, const Process& b) { return a.parent < b.parent; };
  std::sort(all.begin(), all.end(), by_parent);
  std::vector<Process> found;
  pid_t parent = ::getpid();
  for (size_t next = 0;; ++next) {
    auto [first, last] = std::equal_range(all.begin(), all.end(), Process{0, parent, 0}, by_parent);
    found.insert(found.end(), first, last);
    if (next == found.size()) return found;
    parent = found[next].pid;
  }
}

}  // namespace tutti::tool
