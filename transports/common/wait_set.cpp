#include <algorithm>

#include "base/fences.h"
#include "transports/transport.h"

namespace tutti {

void WaitSet::add(int fd, short events) {
  auto found = std::find_if(fds_.begin(), fds_.end(), [&](const pollfd& entry) { return entry.fd == fd; });
  if (found != fds_.end()) {
    found->events |= events;
  } else {
    fds_.push_back({.fd = fd, .events = events, .revents = 0});
  }
}

void WaitSet::fence() const {
  if (needs_fence_) heavy_fence_across_processes();
}

bool WaitSet::sleep(int at_most_ms) {
  if (is_over_) return true;
  int longest_ms = at_most_ms < 0 ? longest_ms_ : std::min(at_most_ms, longest_ms_);
  return ::poll(fds_.data(), fds_.size(), longest_ms == INT_MAX ? -1 : longest_ms) != 0;
}

}  // namespace tutti
