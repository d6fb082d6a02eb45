// Who started this process, read from the environment's variables alone: a pure function, so that every launcher has
// its tests.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace tutti::bootstrap {

using Environment = std::function<std::optional<std::string>(std::string_view name)>;

// How the unique id will reach this rank.
enum class IdChannel {
  kNone,        // one rank: no id
  kFd,          // inherited descriptor (TUTTI_ID_FD)
  kSecretFile,  // secret from a file, address from a variable; rank 0 listens there
  kOneHost,     // a unix socket named after the job: no secret is needed
  kPmix,        // through libpmix
  kPmi1,        // through the descriptor PMI_FD
};

struct Launch {
  std::string launcher = "none";
  int rank = 0;
  int nranks = 1;  // 0: PMIx has to be asked
  IdChannel channel = IdChannel::kNone;
  std::string address;       // kSecretFile: "host:port"
  std::string job_identity;  // kOneHost: the same on all ranks of the job, different from other jobs
  int pmi_fd = -1;
  bool one_host = false;     // kPmi1: all ranks are on this host, so the process manager need only name the job

  friend bool operator==(const Launch&, const Launch&) = default;
};

// Errors are kInvalidUsage: contradictory or incomplete variables (printed), or several hosts without a channel for the
// secret.
Result<Launch> read_launch(const Config& config, const Environment& environment, bool have_pmix);

// "node[01-04,7],other" -> "node01": the first host of a Slurm node list. "" when it does not parse.
std::string first_host(std::string_view node_list);

}  // namespace tutti::bootstrap
