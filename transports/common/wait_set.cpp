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
  if (fences_threads_) heavy_fence();
  if (fences_processes_) heavy_fence_across_processes();
}

bool WaitSet::poll_for(int ms) { return is_over_ || ::poll(fds_.data(), fds_.size(), ms) != 0; }

}  // namespace tutti
