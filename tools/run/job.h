// A job: N local ranks of one command, started, watched and ended together.
//
//   launcher   this process: hosts the meeting point, forwards output and signals, decides when the job ends
//     keeper   starts the ranks, adopts whatever they leave behind, and ends every descendant when told to, or when the
//              launcher is gone
//       rank 0, rank 1, ...
//
// Both launcher and keeper are child subreapers and every rank dies with the keeper, so that no process outlives the
// job even when one of the two is killed with SIGKILL.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::tool {

inline constexpr int kMaxLocalRanks = 4096;

struct Job {
  int ranks = 1;
  std::vector<std::string> command;      // the program (looked up in PATH) and its arguments
  std::vector<std::string> environment;  // "NAME=VALUE", added to this process's environment
  std::string host_facts;                // tutti_inventory_text() as JSON, so that ranks need not look; may be empty
  bool tag_lines = true;                 // "[3] " before every line of rank 3
  // The ranks are of this tool and say themselves why they fail: what several say alike is passed on once, and the
  // launcher adds nothing.
  bool ranks_explain = false;
  bool bind = false;                     // give each rank its share of the cores this process may use
  int64_t grace_ms = 3000;               // between SIGTERM and SIGKILL when the job is ended
  int64_t timeout_ms = 0;                // end the job after this long; 0: never
  std::string name = "tutti run";        // begins every sentence on standard error
};

// Runs the job to its end and leaves no process of it behind. Returns 0 when every rank exited with 0, else the
// status of the first rank that failed (128 + signal number if a signal ended it), 124 after the timeout, or 126
// or 127 when the command cannot be executed or is not found. Says on standard error what failed. Throws Failure
// when the job cannot start.
//
// Changes this process for good (signal mask, subreaper): call it last.
int run_job(const Job& job);

}  // namespace tutti::tool
