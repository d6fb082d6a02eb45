// Listening and connecting without blocking.
#pragma once

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/status.h"
#include "bootstrap/endpoint.h"

namespace tutti::bootstrap {

struct Listener {
  Fd fd;
  Endpoint endpoint;  // unix: the name; TCP: only the port matters
};

// An empty name lets the kernel choose one. Error when the name is taken.
Result<Listener> listen_unix(const std::string& name);
// IPv6 and IPv4 on one socket, IPv4 alone where there is no IPv6. Port 0: any free one. `what` names the option that
// chose the port in the error for a port in use.
Result<Listener> listen_tcp(uint16_t port, std::string_view what);

struct Accepted {
  Fd fd;
  std::string from;  // "10.0.0.2:4711", "a process of this host"
  bool is_unix = false;
};
// nullopt when nobody is waiting (or has gone again).
std::optional<Accepted> accept_one(const Listener& listener);

// A non-blocking socket that is connecting; connect_result() tells how it went once it is writable.
Result<Fd> start_connect(const Endpoint& endpoint);
Status connect_result(int fd);

}  // namespace tutti::bootstrap
