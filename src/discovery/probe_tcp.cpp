// A TCP connection over the loopback interface, both ends polled.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <vector>

#include "base/fd.h"
#include "base/local_tcp.h"
#include "discovery/probe_buffer.h"
#include "discovery/probes.h"
#include "topology/inventory.h"

namespace tutti {
namespace {

constexpr int64_t kLimitMs = 200;

struct Connection {
  Fd first;
  Fd second;
};

bool prepare(const Fd& fd) {
  int one = 1;
  timeval limit{0, kLimitMs * 1000};
  disregard_congestion(fd.get());  // as the transport does within a host
  return ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0 &&
         ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
         ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0;
}

std::optional<Connection> connect_over_loopback() {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || !prepare(listener) || ::bind(listener.get(), generic, size) != 0 ||
      ::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), generic, &size) != 0) {
    return std::nullopt;
  }
  Connection connection;
  connection.first = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!connection.first || !prepare(connection.first) || ::connect(connection.first.get(), generic, size) != 0) {
    return std::nullopt;
  }
  sockaddr_in own{};
  sockaddr_in peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  connection.second = Fd(::accept4(listener.get(), reinterpret_cast<sockaddr*>(&peer), &peer_size, SOCK_CLOEXEC));
  if (!connection.second || !prepare(connection.second)) return std::nullopt;
  // Another process may have been quicker to connect.
  if (::getsockname(connection.first.get(), reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      own.sin_port != peer.sin_port) {
    return std::nullopt;
  }
  return connection;
}

bool send_all(const Fd& fd, const char* data, size_t size) {
  while (size > 0) {
    ssize_t count = ::send(fd.get(), data, size, MSG_NOSIGNAL);
    if (count <= 0) return false;
    data += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

// Small enough to arrive whole.
constexpr size_t kSmall = 64;

bool receive_small(const Fd& fd, const Deadline& deadline) {
  std::array<char, kSmall> buffer;
  while (true) {
    ssize_t count = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0) return true;
    if (count == 0 || errno != EAGAIN || deadline.passed()) return false;
    ::sched_yield();  // with one CPU the peer must get it
  }
}

std::optional<uint64_t> small_message_ns(const Connection& connection, CpuPair cpus) {
  constexpr int kBatches = 40;
  constexpr int kRounds = 10;
  Deadline deadline = Deadline::after_ms(kLimitMs);
  std::array<char, kSmall> message{};
  std::optional<uint64_t> best;
  auto first = [&] {
    for (int batch = 0; batch < kBatches; ++batch) {
      auto start = Clock::now();
      for (int i = 0; i < kRounds; ++i) {
        if (!send_all(connection.first, message.data(), kSmall) || !receive_small(connection.first, deadline)) return;
      }
      uint64_t one_way = std::max<uint64_t>(1, ns_since(start) / (2 * kRounds));
      best = std::min(best.value_or(one_way), one_way);
    }
  };
  auto second = [&] {
    for (int i = 0; i < kBatches * kRounds; ++i) {
      if (!receive_small(connection.second, deadline) || !send_all(connection.second, message.data(), kSmall)) return;
    }
  };
  run_pinned(cpus.first, first, cpus.second, second);
  return best;
}

struct CallTimes {
  uint64_t send_ns = 0;
  uint64_t receive_ns = 0;
};

// One thread at both ends: a message that was sent over loopback has arrived when the call returns.
std::optional<CallTimes> call_times(const Connection& connection, int cpu) {
  constexpr int kBatches = 20;
  constexpr uint64_t kRounds = 10;
  Deadline deadline = Deadline::after_ms(kLimitMs);
  std::array<char, kSmall> message{};
  CallTimes best{.send_ns = UINT64_MAX / 2};
  bool whole = true;
  run_pinned(cpu, [&] {
    for (int batch = 0; whole && batch < kBatches; ++batch) {
      CallTimes times;
      for (uint64_t i = 0; whole && i < kRounds; ++i) {
        auto start = Clock::now();
        whole = send_all(connection.first, message.data(), kSmall);
        times.send_ns += ns_since(start);
        start = Clock::now();
        whole = whole && receive_small(connection.second, deadline);
        times.receive_ns += ns_since(start);
      }
      if (times.send_ns + times.receive_ns < best.send_ns + best.receive_ns) best = times;
    }
  });
  if (!whole) return std::nullopt;
  return CallTimes{std::max<uint64_t>(1, best.send_ns / kRounds), std::max<uint64_t>(1, best.receive_ns / kRounds)};
}

constexpr size_t kStreamBytes = 16 << 20;
constexpr size_t kOpeningBytes = 2 << 20;  // of these, which open the windows

// One end's part of a block, or of one that goes each way; false when the other end stalled.
bool exchange_block(const Fd& fd, const std::vector<char>& from, std::vector<char>& to, const Deadline& deadline) {
  size_t sent = 0, received = 0;
  while (sent < from.size() || received < to.size()) {
    ssize_t out = 0, in = 0;
    if (sent < from.size()) {
      out = ::send(fd.get(), from.data() + sent, from.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (out < 0 && errno != EAGAIN) return false;
    }
    if (received < to.size()) {
      in = ::recv(fd.get(), to.data() + received, to.size() - received, MSG_DONTWAIT);
      if (in == 0 || (in < 0 && errno != EAGAIN)) return false;
    }
    sent += static_cast<size_t>(std::max<ssize_t>(0, out));
    received += static_cast<size_t>(std::max<ssize_t>(0, in));
    if (out <= 0 && in <= 0) {
      if (deadline.passed()) return false;
      ::sched_yield();  // with one CPU the peer must get it
    }
  }
  return true;
}

// How many blocks go over the connection at once.
enum class Direction : uint8_t { kOne, kBoth };

// Blocks in each direction that there is, both ends polled, as the transport does: who sleeps instead waits to be
// woken. nullopt when an end stalled.
std::optional<uint64_t> stream_bytes_per_s(const Connection& connection, CpuPair cpus, Direction direction,
                                           size_t block_bytes) {
  Deadline deadline = Deadline::after_ms(kLimitMs);
  uint64_t ns = 0;
  auto run_end = [&](const Fd& fd, size_t out_bytes, size_t in_bytes, uint64_t* took_ns) {
    std::vector<char> from(out_bytes, 1);
    std::vector<char> to(in_bytes, 0);
    auto start = Clock::now();
    for (size_t moved = 0; moved < kStreamBytes; moved += block_bytes) {
      if (moved == kOpeningBytes) start = Clock::now();
      if (!exchange_block(fd, from, to, deadline)) return;
    }
    if (took_ns != nullptr) *took_ns = ns_since(start);
  };
  size_t back_bytes = direction == Direction::kBoth ? block_bytes : 0;
  run_pinned(
      cpus.first, [&] { run_end(connection.first, block_bytes, back_bytes, nullptr); }, cpus.second,
      [&] { run_end(connection.second, back_bytes, block_bytes, &ns); });
  return ns == 0 ? std::nullopt : std::optional(rate_of(kStreamBytes - kOpeningBytes, ns));
}

// The quickest of some passes: the others were disturbed.
std::optional<uint64_t> best_bytes_per_s(const Connection& connection, CpuPair cpus, Direction direction,
                                         size_t block_bytes) {
  constexpr int kPasses = 3;
  uint64_t best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    auto rate = stream_bytes_per_s(connection, cpus, direction, block_bytes);
    if (!rate) return std::nullopt;  // bytes are left over: the connection is of no more use
    best = std::max(best, *rate);
  }
  return best;
}

}  // namespace

std::optional<TcpCost> probe_tcp(CpuPair cpus) {
  auto connection = connect_over_loopback();
  if (!connection) return std::nullopt;
  auto ns = small_message_ns(*connection, cpus);
  auto calls = ns ? call_times(*connection, cpus.first) : std::nullopt;
  if (!calls) return std::nullopt;
  TcpCost cost{.ns = *ns, .send_ns = calls->send_ns, .receive_ns = calls->receive_ns};
  auto measure = [&](size_t block_bytes, Direction direction, uint64_t& bytes_per_s) {
    auto best = best_bytes_per_s(*connection, cpus, direction, block_bytes);
    bytes_per_s = best.value_or(0);
    return best.has_value();
  };
  bool whole = measure(kTcpBlockBytes, Direction::kOne, cost.bytes_per_s) &&
               measure(kTcpBlockBytes, Direction::kBoth, cost.both_bytes_per_s) &&
               measure(kLargeTcpBlockBytes, Direction::kOne, cost.large_bytes_per_s) &&
               measure(kLargeTcpBlockBytes, Direction::kBoth, cost.large_both_bytes_per_s);
  return whole ? std::optional(cost) : std::nullopt;
}

}  // namespace tutti
