#include "outer_launcher.h"

#include <algorithm>
#include <span>
#include <string_view>

extern char** environ;

namespace tutti::tool {
namespace {

struct Known {
  std::string_view name;
  std::string_view mark;  // is set in the processes that it starts, and nowhere else
  std::string_view rank;
  std::string_view size;
  std::span<const std::string_view> beginnings;  // of the names of its variables
};

constexpr std::string_view kTutti[] = {"TUTTI_RANK=", "TUTTI_SIZE=", "TUTTI_ID_FD=", "TUTTI_HOST_FD="};
constexpr std::string_view kOpenMpi[] = {"OMPI_", "PMIX_", "PRTE_"};
constexpr std::string_view kHydra[] = {"PMI_", "PMIX_", "HYDI_", "MPI_LOCAL"};
constexpr std::string_view kSlurm[] = {"SLURM_STEP", "SLURM_PROCID=", "SLURM_LOCALID=", "PMI_", "PMIX_"};
constexpr std::string_view kTorchrun[] = {"TORCHELASTIC_", "RANK=",       "LOCAL_RANK=",   "GROUP_RANK=",
                                          "ROLE_",         "WORLD_SIZE=", "LOCAL_WORLD_",  "GROUP_WORLD_",
                                          "MASTER_ADDR=",  "MASTER_PORT="};

// Where several are, the first is named.
constexpr Known kKnown[] = {
    {"tutti run", "TUTTI_ID_FD", "TUTTI_RANK", "TUTTI_SIZE", kTutti},
    {"torchrun", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", kTorchrun},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", kOpenMpi},
    {"mpiexec", "PMI_RANK", "PMI_RANK", "PMI_SIZE", kHydra},
    {"srun", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", kSlurm},
};

std::optional<std::string> value_of(const std::vector<std::string>& environment, std::string_view name) {
  for (std::string_view variable : environment) {
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('=')) {
      return std::string(variable.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  return variables;
}

std::optional<OuterLauncher> outer_launcher(const std::vector<std::string>& environment) {
  for (const Known& known : kKnown) {
    if (!value_of(environment, known.mark)) continue;
    return OuterLauncher{.name = std::string(known.name),
                         .first = value_of(environment, known.rank) == "0",
                         .processes = value_of(environment, known.size).value_or("1")};
  }
  return std::nullopt;
}

void forget_outer_launchers(std::vector<std::string>& environment) {
  std::vector<const Known*> here;
  for (const Known& known : kKnown) {
    if (value_of(environment, known.mark)) here.push_back(&known);
  }
  std::erase_if(environment, [&](const std::string& variable) {
    return std::any_of(here.begin(), here.end(), [&](const Known* known) {
      return std::any_of(known->beginnings.begin(), known->beginnings.end(),
                         [&](std::string_view beginning) { return variable.starts_with(beginning); });
    });
  });
}

}  // namespace tutti::tool
