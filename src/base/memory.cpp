#include "base/memory.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace tutti {
namespace {

std::string_view remedy_for(int errno_value) {
  switch (errno_value) {
    case ENOMEM:
    case ENOSPC:
    case EAGAIN: return kMemoryRemedy;
    case EMFILE:
    case ENFILE: return "raise the limit of open files (ulimit -n)";
    case EFBIG: return "raise the limit of the size of files (ulimit -f)";
    default: return "";
  }
}

}  // namespace

Status memory_error(int errno_value, std::string_view what) {
  Status status = system_error(errno_value, what);
  std::string_view remedy = remedy_for(errno_value);
  return remedy.empty() ? status : error(status.code(), "{}; {}", status.message(), remedy);
}

void end_without_memory() noexcept {
  constexpr std::string_view kSentence = "[tutti] error: out of memory; free memory, or raise the limit (ulimit -v)\n";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, kSentence.data(), kSentence.size());
  std::abort();
}

}  // namespace tutti
