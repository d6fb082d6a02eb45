#include "rank_process.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "outer_launcher.h"

extern char** environ;

namespace tutti::tool {
namespace {

// A file with these bytes that the rank inherits, -1 on failure. Every rank gets one of its own: a shared one would
// have one read position for all ranks.
int inheritable_file(const char* name, const void* bytes, size_t size) {
  int file = ::memfd_create(name, 0);
  if (file < 0) return -1;
  bool is_whole = ::write(file, bytes, size) == static_cast<ssize_t>(size) && ::lseek(file, 0, SEEK_SET) == 0;
  return is_whole ? file : -1;
}

std::vector<std::string> rank_environment(const Job& job, int rank, int id_fd, int host_fd) {
  std::vector<std::string> variables = own_environment();
  forget_outer_launchers(variables);
  auto set = [&](std::string assignment) {
    std::string_view name(assignment.data(), assignment.find('=') + 1);
    std::erase_if(variables, [&](const std::string& variable) { return variable.starts_with(name); });
    variables.push_back(std::move(assignment));
  };
  for (const std::string& assignment : job.environment) set(assignment);
  set("TUTTI_RANK=" + std::to_string(rank));
  set("TUTTI_SIZE=" + std::to_string(job.ranks));
  set("TUTTI_ID_FD=" + std::to_string(id_fd));
  if (host_fd >= 0) set("TUTTI_HOST_FD=" + std::to_string(host_fd));
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Rank r's share of the cores: a run of neighbours, or one core when there are fewer cores than ranks.
void bind_to_share(const std::vector<int>& cores, int ranks, int rank) {
  if (cores.empty()) return;
  size_t count = cores.size();
  size_t first = count * rank / ranks;
  size_t last = std::max(count * (rank + 1) / ranks, first + 1);
  cpu_set_t share;
  CPU_ZERO(&share);
  for (size_t i = first; i < last; ++i) CPU_SET(cores[i], &share);
  ::sched_setaffinity(0, sizeof share, &share);
}

int connect_standard_streams(int rank, const RankOutput& output) {
  if (rank != 0) {
    Fd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!nothing || ::dup2(nothing.get(), STDIN_FILENO) < 0) return errno;
  }
  if (::dup2(output.standard_output.get(), STDOUT_FILENO) < 0) return errno;
  if (::dup2(output.standard_error.get(), STDERR_FILENO) < 0) return errno;
  return 0;
}

}  // namespace

Inherited current_state() {
  Inherited state;
  ::sigprocmask(SIG_SETMASK, nullptr, &state.signal_mask);
  ::getrlimit(RLIMIT_NOFILE, &state.open_files);
  state.process_group = ::getpgrp();
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &allowed)) state.cores.push_back(core);
    }
  }
  return state;
}

int become_rank(const Job& job, const Inherited& inherited, const tutti_unique_id_t& id, int rank,
                const RankOutput& output, pid_t keeper) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != keeper) ::_exit(1);  // it died before the line above
  ::setpgid(0, inherited.process_group);
  if (int error = connect_standard_streams(rank, output)) return error;
  if (job.bind) bind_to_share(inherited.cores, job.ranks, rank);
  int id_fd = inheritable_file("tutti-id", id.bytes, sizeof id.bytes);
  if (id_fd < 0) return errno;
  const std::string& facts = job.host_facts;
  int host_fd = facts.empty() ? -1 : inheritable_file("tutti-host", facts.data(), facts.size());
  ::setrlimit(RLIMIT_NOFILE, &inherited.open_files);

  std::vector<std::string> variables = rank_environment(job, rank, id_fd, host_fd);
  std::vector<std::string> command = job.command;
  std::vector<char*> variable_pointers = pointers(variables);
  std::vector<char*> command_pointers = pointers(command);
  environ = variable_pointers.data();  // execvp looks the program up in the rank's PATH
  ::sigprocmask(SIG_SETMASK, &inherited.signal_mask, nullptr);
  ::execvp(command_pointers[0], command_pointers.data());
  return errno;
}

}  // namespace tutti::tool
