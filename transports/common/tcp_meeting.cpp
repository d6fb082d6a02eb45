#include "transports/common/tcp_meeting.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/local_tcp.h"

namespace tutti {
namespace {

// Bound to `address` (port 0: a free one) and listening.
Result<Fd> listen_at(const SocketAddress& address, bool also_ipv4) {
  Fd socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return system_error(errno, "cannot make a TCP socket");
  int ipv6_only = also_ipv4 ? 0 : 1;
  if (address.storage.ss_family == AF_INET6) {
    (void)::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &ipv6_only, sizeof ipv6_only);
  }
  if (::bind(socket.get(), address.get(), address.size_bytes) != 0) {
    return system_error(errno, "cannot bind a TCP socket");
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) return system_error(errno, "cannot listen on a TCP socket");
  return socket;
}

using AskForAddress = int(int socket, sockaddr* address, socklen_t* size_bytes);

Result<TcpAddress> ask_for_address(AskForAddress* ask, int socket) {
  SocketAddress address;
  address.size_bytes = sizeof address.storage;
  if (ask(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size_bytes) != 0) {
    return system_error(errno, "cannot ask for the address of a TCP socket");
  }
  return tcp_address(address.get());
}

Result<uint16_t> port_of(int socket) {
  return TUTTI_TRY(ask_for_address(::getsockname, socket)).port;
}

bool both_ends_are_here(int socket) {
  auto here = ask_for_address(::getsockname, socket), there = ask_for_address(::getpeername, socket);
  return here.ok() && there.ok() && here->family == there->family && here->bytes == there->bytes;
}

void set_option(int socket, int level, int option, int value) {
  (void)::setsockopt(socket, level, option, &value, sizeof value);  // each is an improvement, none is needed
}

bool reachable(const Inventory& host, bool ipv6, bool loopback) {
  return std::any_of(host.nics.begin(), host.nics.end(), [&](const Nic& nic) {
    return nic.up && (loopback || !nic.loopback) &&
           std::any_of(nic.addresses.begin(), nic.addresses.end(),
                       [&](const std::string& a) { return (a.find(':') != std::string::npos) == ipv6; });
  });
}

}  // namespace

TcpMeeting::TcpMeeting(Wire wire, const TransportContext& context)
    : wire_(wire), context_(context), forced_(!context.interface.empty()) {}

Status TcpMeeting::listen() {
  identity_ = TUTTI_TRY(make_identity(wire_, context_.job, context_.rank, context_.nranks, context_.token));
  context_.token = {};  // the caller's bytes are not ours to keep
  sources_ = TUTTI_TRY(local_addresses(context_.interface));
  host_.host = this_host();
  auto listeners = TUTTI_TRY(forced_ ? listen_on_sources() : listen_everywhere());
  acceptor_ = std::make_unique<Acceptor>(identity_, std::move(listeners), [](int) { return Status(); });
  return {};
}

Result<std::unique_ptr<Connector>> TcpMeeting::connector_to(int peer, std::span<const std::byte> peer_address) {
  std::unique_ptr<Dialer> dialer;
  if (identity_.rank > peer) {
    auto candidates = candidates_for(TUTTI_TRY(parse_tcp_host(peer_address)));
    dialer = std::make_unique<Dialer>(identity_, peer, candidates, [](int) { return Status(); });
  }
  return std::make_unique<Connector>(peer, *acceptor_, std::move(dialer));
}

// One socket for both families, or for IPv4 alone where IPv6 is switched off.
Result<std::vector<Fd>> TcpMeeting::listen_everywhere() {
  auto listener = listen_at(socket_address({.family = TcpAddress::Family::kIpv6}, 0), true);
  bool ipv6 = listener.ok();
  if (!ipv6) listener = listen_at(socket_address({.family = TcpAddress::Family::kIpv4}, 0), false);
  if (!listener.ok()) return std::move(listener).status();
  uint16_t port = TUTTI_TRY(port_of(listener->get()));
  for (const LocalAddress& local : sources_) {
    if (ipv6 || local.address.family == TcpAddress::Family::kIpv4) offer(local, port);
  }
  std::vector<Fd> listeners;
  listeners.push_back(std::move(*listener));
  return listeners;
}

Result<std::vector<Fd>> TcpMeeting::listen_on_sources() {
  std::vector<Fd> listeners;
  Status last;
  for (const LocalAddress& local : sources_) {
    auto listener = listen_at(socket_address(local.address, local.index), false);
    if (!listener.ok()) {
      last = std::move(listener).status();
      continue;
    }
    offer(local, TUTTI_TRY(port_of(listener->get())));
    listeners.push_back(std::move(*listener));
  }
  if (listeners.empty()) return last;
  return listeners;
}

void TcpMeeting::offer(const LocalAddress& local, uint16_t port) {
  if (host_.addresses.size() == kMostTcpAddresses) return;
  host_.addresses.push_back(local.address);
  host_.addresses.back().port = port;
}

// Everything to try: on one host its loopback addresses first, else what is not loopback; a link-local address
// through each interface of ours.
std::vector<DialTarget> TcpMeeting::candidates_for(const TcpHost& peer) const {
  bool same_host = peer.host == host_.host;
  std::vector<TcpAddress> targets;
  std::copy_if(peer.addresses.begin(), peer.addresses.end(), std::back_inserter(targets),
               [&](const TcpAddress& a) { return same_host || !a.loopback; });
  std::stable_partition(targets.begin(), targets.end(), [](const TcpAddress& a) { return a.loopback; });
  std::vector<DialTarget> candidates;
  for (const TcpAddress& target : targets) {
    bool scoped = target.link_local && target.family == TcpAddress::Family::kIpv6;
    auto add = [&](uint32_t scope, const TcpAddress* source) {
      DialTarget candidate;
      candidate.address = socket_address(target, scope);
      if (source != nullptr) candidate.source = socket_address(*source, scope);
      candidate.text = to_text(target);
      candidates.push_back(std::move(candidate));
    };
    if (!forced_ && !scoped) {
      add(0, nullptr);
      continue;
    }
    for (const LocalAddress& local : sources_) {
      bool fits = local.address.family == target.family && local.address.loopback == target.loopback &&
                  (!scoped || local.address.link_local);
      if (fits) add(local.index, forced_ ? &local.address : nullptr);
    }
  }
  return candidates;
}

void tune_connection(int socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // While something is being sent, the call's deadline has to do: TCP_USER_TIMEOUT would also cut off a peer that is
  // busy elsewhere and does not read.
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (both_ends_are_here(socket)) disregard_congestion(socket);
}

std::string ends_of(int socket) {
  auto text = [&](AskForAddress* ask) {
    auto address = ask_for_address(ask, socket);
    return address.ok() ? to_text(*address) : std::string("an unknown address");
  };
  return fmt::format("{} to {}", text(::getsockname), text(::getpeername));
}

bool can_meet(const Inventory& self, const Inventory& peer) {
  const HostIdentity &a = self.identity, &b = peer.identity;
  bool same_host = !a.boot_id.empty() && a.boot_id == b.boot_id && a.net_namespace == b.net_namespace;
  auto both_have = [&](bool ipv6) { return reachable(self, ipv6, same_host) && reachable(peer, ipv6, same_host); };
  return both_have(false) || both_have(true);
}

}  // namespace tutti
