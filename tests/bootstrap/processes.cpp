#include "bootstrap/processes.h"

#include <poll.h>

#include "base/deadline.h"

namespace tutti::bootstrap {

std::string Process::line() {
  Deadline deadline = Deadline::after_ms(20'000);
  for (;;) {
    if (size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    pollfd wait{in_.get(), POLLIN, 0};
    char bytes[4096];
    if (deadline.passed() || ::poll(&wait, 1, deadline.left_ms()) <= 0) return "";
    ssize_t got = ::read(in_.get(), bytes, sizeof(bytes));
    if (got <= 0) return "";
    buffer_.append(bytes, static_cast<size_t>(got));
  }
}

void tell(int out, const std::string& text) {
  std::string line = text + "\n";
  (void)!::write(out, line.data(), line.size());
}

}  // namespace tutti::bootstrap
