// Listening sockets of a test, on 127.0.0.1. Main thread only, as everything of Catch2.
#pragma once

#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "base/fd.h"
#include "transports/common/dialer.h"
#include "transports/common/tcp_host.h"

namespace tutti::test {

// `ask` is getsockname or getpeername.
template <typename Ask>
SocketAddress address_of(Ask ask, int socket) {
  SocketAddress address;
  address.size_bytes = sizeof address.storage;
  REQUIRE(ask(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size_bytes) == 0);
  return address;
}

inline Fd listen_on_loopback(int backlog) {
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  TcpAddress loopback;
  loopback.bytes = {std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
  SocketAddress address = socket_address(loopback, 0);
  REQUIRE(::bind(listener.get(), address.get(), address.size_bytes) == 0);
  REQUIRE(::listen(listener.get(), backlog) == 0);
  return listener;
}

}  // namespace tutti::test
