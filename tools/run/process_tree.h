// The processes below this one, read from /proc.
#pragma once

#include <sys/types.h>

#include <vector>

namespace tutti::tool {

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t group = 0;
};

// All live descendants of this process, parents before their children; zombies are left out. A snapshot: processes that
// fork meanwhile may be missed, so those who end a tree must look again until nothing is left.
std::vector<Process> descendants();

}  // namespace tutti::tool
