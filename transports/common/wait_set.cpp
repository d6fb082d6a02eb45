#include <algorithm>

#include "transports/transport.h"

namespace tutti {

void WaitSet::add(int fd, short events) {
  auto found = std::find_if(fds.begin(), fds.end(), [&](const pollfd& entry) { return entry.fd == fd; });
  if (found != fds.end()) {
    found->events |= events;
  } else {
    fds.push_back({.fd = fd, .events = events, .revents = 0});
  }
}

}  // namespace tutti
