// The PMI-1 wire protocol of hydra and of Slurm's pmi2 plug-in: lines of key=value words over an inherited descriptor
// (Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for Extreme-Scale Systems", EuroMPI 2010).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/status.h"

namespace tutti::bootstrap {

using PmiFields = std::map<std::string, std::string, std::less<>>;

// "cmd=get_result rc=0 value=abc" without the newline. Takes any bytes; a word without '=' is an error.
Result<PmiFields> parse_pmi(std::string_view line);

class Pmi1 {
 public:
  // Borrows `fd`, which belongs to the launcher's environment, and says init. Blocks until the answer or `deadline`.
  static Result<Pmi1> open(int fd, Deadline deadline);

  Status put(std::string_view key, std::string_view value, Deadline deadline);
  // After barrier() every rank sees what was put before it.
  Status barrier(Deadline deadline);
  Result<std::string> get(std::string_view key, Deadline deadline);
  // Without it hydra takes the end of this process for a crash.
  Status finalize(Deadline deadline);
  // The job's key space, named after the job.
  const std::string& space() const { return space_; }

 private:
  explicit Pmi1(int fd) : fd_(fd) {}
  // Sends one line and waits for the answer `expected`; an rc other than 0 is an error.
  Result<PmiFields> ask(std::string_view line, std::string_view expected, Deadline deadline);
  // Waits for one of `events`, as poll(2) names them, while `line` is asked. May return before.
  Status await(short events, std::string_view line, Deadline deadline) const;

  int fd_;
  std::string space_;  // name of the job's key space
  std::string unread_;
};

}  // namespace tutti::bootstrap
