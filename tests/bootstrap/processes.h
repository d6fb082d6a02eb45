// Runs the ranks of a job as processes, so that they can be killed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"

namespace tutti::bootstrap {

// One forked process and the pipe on which it tells its lines. The destructor kills it.
class Process {
 public:
  // `body` runs in the child and gets the pipe's end to write to.
  explicit Process(const std::function<void(int out)>& body) {
    int ends[2];
    TUTTI_CHECK(::pipe(ends) == 0);
    in_ = Fd(ends[0]);
    pid_ = ::fork();
    TUTTI_CHECK(pid_ >= 0);
    if (pid_ == 0) {
      in_.reset();
      body(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
  }
  Process(Process&& other) noexcept : in_(std::move(other.in_)), pid_(std::exchange(other.pid_, -1)) {}
  ~Process() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void signal(int number) const { ::kill(pid_, number); }
  // The next line without its newline; "" at the end, or after 20 s.
  std::string line();

 private:
  Fd in_;
  std::string buffer_;
  pid_t pid_ = -1;
};

// Writes one line; short lines of one pipe never mix.
void tell(int out, const std::string& text);

}  // namespace tutti::bootstrap
