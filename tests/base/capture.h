// What is written to standard error while this lives.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

#include "base/fd.h"

namespace tutti {

class StderrCapture {
 public:
  StderrCapture() : file_(::memfd_create("stderr", MFD_CLOEXEC)), before_(::dup(STDERR_FILENO)) {
    std::fflush(stderr);
    ::dup2(file_.get(), STDERR_FILENO);
  }
  ~StderrCapture() {
    std::fflush(stderr);
    ::dup2(before_.get(), STDERR_FILENO);
  }
  StderrCapture(const StderrCapture&) = delete;
  StderrCapture& operator=(const StderrCapture&) = delete;

  std::string text() const {
    std::fflush(stderr);
    std::string result(static_cast<size_t>(::lseek(file_.get(), 0, SEEK_END)), '\0');
    ssize_t got = ::pread(file_.get(), result.data(), result.size(), 0);
    result.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return result;
  }

 private:
  Fd file_;
  Fd before_;
};

}  // namespace tutti
