// What becomes one rank: between fork and exec.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "fd.h"
#include "job.h"
#include "tutti/tutti.h"

namespace tutti::tool {

// The launcher's state before it changed anything for its own needs; ranks get it back.
struct Inherited {
  sigset_t signal_mask;
  rlimit open_files;
  pid_t process_group;  // ranks stay in it: the terminal's Ctrl-C and Ctrl-Z reach them as they would reach any program
  std::vector<int> cores;  // that this process may run on
};

Inherited current_state();

// The pipe ends that a rank writes to, in the keeper.
struct RankOutput {
  Fd standard_output;
  Fd standard_error;
};

// Turns the calling process, a fresh child of `keeper`, into rank `rank`. Returns errno when the program cannot be
// executed; otherwise never.
int become_rank(const Job& job, const Inherited& inherited, const tutti_unique_id_t& id, int rank,
                const RankOutput& output, pid_t keeper);

}  // namespace tutti::tool
