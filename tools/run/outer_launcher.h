// Another launcher that this process runs under (mpirun, mpiexec, srun, torchrun, tutti run). A job of ours is
// independent of it, so its ranks must not be taken for the outer launcher's processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::tool {

struct OuterLauncher {
  std::string name;       // of its command
  bool first = false;     // whether this is the first of the processes that it started
  std::string processes;  // their number
};

// This process's variables, "NAME=VALUE".
std::vector<std::string> own_environment();

// The launcher that started this process, if one did.
std::optional<OuterLauncher> outer_launcher(const std::vector<std::string>& environment);

// Removes the variables by which such a launcher tells a process which one it is and how to find the others. Those by
// which people configure launchers stay where no launcher is.
void forget_outer_launchers(std::vector<std::string>& environment);

}  // namespace tutti::tool
