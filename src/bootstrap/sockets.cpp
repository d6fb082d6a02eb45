#include "bootstrap/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>

namespace tutti::bootstrap {
namespace {

constexpr int kBacklog = 4096;  // the kernel lowers it to net.core.somaxconn
constexpr int kUserTimeoutMs = 10'000;

void set_option(int fd, int level, int name, int value) {
  // Without these options a connection is only slower to answer or to notice a dead host.
  (void)::setsockopt(fd, level, name, &value, sizeof(value));
}

void tune_tcp(int fd) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

Endpoint bound_endpoint(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return {};
  Endpoint endpoint = Endpoint::of(reinterpret_cast<sockaddr*>(&address));
  if (endpoint.is_unix()) {
    const auto* un = reinterpret_cast<const sockaddr_un*>(&address);
    size_t prefix = offsetof(sockaddr_un, sun_path) + 1;
    if (length > prefix) endpoint.name.assign(un->sun_path + 1, length - prefix);
  }
  return endpoint;
}

Status listen_errors(int code, uint16_t port, std::string_view what) {
  if (code == EADDRINUSE) {
    return error(Code::kSystem,
                 "port {} is in use by another process: choose another port for {}, or end the process that holds it "
                 "(ss -tlnp 'sport = :{}' shows it)",
                 port, what, port);
  }
  if (code == EACCES) {
    return error(Code::kSystem, "port {} may not be opened by this user: choose a port above 1023 for {}", port, what);
  }
  return system_error(code, fmt::format("cannot listen on port {}", port));
}

}  // namespace

Result<Listener> listen_unix(const std::string& name) {
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(errno, "cannot open a unix socket");
  sockaddr_storage address{};
  socklen_t length = Endpoint::unix_socket(name).to_sockaddr(address);
  if (name.empty()) length = sizeof(sa_family_t);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == EADDRINUSE) {
      return error(Code::kSystem,
                   "the unix socket \"@{}\" is in use: another job with the same identity is starting on this host, or "
                   "two processes were started as rank 0",
                   name);
    }
    return system_error(errno, fmt::format("cannot bind the unix socket \"@{}\"", name));
  }
  if (::listen(fd.get(), kBacklog) != 0) return system_error(errno, "cannot listen on a unix socket");
  Endpoint endpoint = bound_endpoint(fd.get());
  return Listener{std::move(fd), std::move(endpoint)};
}

Result<Listener> listen_tcp(uint16_t port, std::string_view what) {
  Endpoint any;
  any.port = port;
  any.family = Endpoint::Family::kIpv6;
  Fd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd) {
    set_option(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  } else {
    any.family = Endpoint::Family::kIpv4;
    fd = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  }
  if (!fd) return system_error(errno, "cannot open a TCP socket");
  set_option(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  tune_tcp(fd.get());  // accepted sockets inherit it
  sockaddr_storage address{};
  socklen_t length = any.to_sockaddr(address);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return listen_errors(errno, port, what);
  }
  Endpoint endpoint = bound_endpoint(fd.get());
  return Listener{std::move(fd), std::move(endpoint)};
}

std::optional<Accepted> accept_one(const Listener& listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  Fd fd(::accept4(listener.fd.get(), reinterpret_cast<sockaddr*>(&address), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd) return std::nullopt;
  bool is_unix = listener.endpoint.is_unix();
  std::string from = is_unix ? "a process of this host" : Endpoint::of(reinterpret_cast<sockaddr*>(&address)).text();
  return Accepted{std::move(fd), std::move(from), is_unix};
}

Result<Fd> start_connect(const Endpoint& endpoint) {
  sockaddr_storage address{};
  socklen_t length = endpoint.to_sockaddr(address);
  Fd fd(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_error(errno, "cannot open a socket");
  if (!endpoint.is_unix()) tune_tcp(fd.get());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 && errno != EINPROGRESS) {
    // A unix socket whose queue is full is there, and busy.
    if (errno == EAGAIN) return error(Code::kTimeout, "too many processes connect to {} at once", endpoint.text());
    return system_error(errno, fmt::format("cannot connect to {}", endpoint.text()));
  }
  return fd;
}

Status connect_result(int fd) {
  int code = 0;
  socklen_t length = sizeof(code);
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length) != 0) code = errno;
  return code == 0 ? Status() : system_error(code, "cannot connect");
}

}  // namespace tutti::bootstrap
