#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "transports/tcp/link.h"
#include "transports/tcp/tcp.h"

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

Result<uint16_t> port_of(int socket) {
  SocketAddress address;
  address.size_bytes = sizeof address.storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size_bytes) != 0) {
    return system_error(errno, "cannot ask for the port of a TCP socket");
  }
  return tcp_address(address.get()).port;
}

bool reachable(const Inventory& host, bool ipv6, bool loopback) {
  return std::any_of(host.nics.begin(), host.nics.end(), [&](const Nic& nic) {
    return nic.up && (loopback || !nic.loopback) &&
           std::any_of(nic.addresses.begin(), nic.addresses.end(),
                       [&](const std::string& a) { return (a.find(':') != std::string::npos) == ipv6; });
  });
}

class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(const TransportContext& context)
      : context_(context),
        shared_{.identity = {},
                .host = {},
                .sources = {},
                .forced = !context.interface.empty(),
                .acceptor = nullptr,
                .exports = {},
                .bells = BellRow(context.nranks)} {}

  std::string_view name() const override { return "tcp"; }

  std::optional<LinkTraits> reach(const Inventory& self, const Inventory& peer, bool) const override {
    const HostIdentity &a = self.identity, &b = peer.identity;
    bool same_host = !a.boot_id.empty() && a.boot_id == b.boot_id && a.net_namespace == b.net_namespace;
    for (bool ipv6 : {false, true}) {
      if (reachable(self, ipv6, same_host) && reachable(peer, ipv6, same_host)) return LinkTraits{};
    }
    return std::nullopt;
  }

  Status listen() override {
    shared_.identity =
        TUTTI_TRY(make_identity(Wire::kTcp, context_.job, context_.rank, context_.nranks, context_.token));
    context_.token = {};  // the caller's bytes are not ours to keep
    shared_.sources = TUTTI_TRY(local_addresses(context_.interface));
    shared_.host.host = this_host();
    auto listeners = TUTTI_TRY(shared_.forced ? listen_on_sources() : listen_everywhere());
    shared_.acceptor =
        std::make_unique<Acceptor>(shared_.identity, std::move(listeners), [](int) { return Status(); });
    return {};
  }

  Blob address() const override { return encode(shared_.host); }

  Result<const LocalMemory*> export_memory(std::span<std::byte> memory, int fd) override {
    return shared_.exports.add(memory, fd);
  }
  void release(const LocalMemory* memory) override { shared_.exports.remove(memory); }
  std::unique_ptr<Link> open(int peer) override { return std::make_unique<TcpLink>(shared_, peer); }

 private:
  // One socket for both families, or for IPv4 alone where IPv6 is switched off.
  Result<std::vector<Fd>> listen_everywhere() {
    auto listener = listen_at(socket_address({.family = TcpAddress::Family::kIpv6}, 0), true);
    bool ipv6 = listener.ok();
    if (!ipv6) listener = listen_at(socket_address({.family = TcpAddress::Family::kIpv4}, 0), false);
    if (!listener.ok()) return std::move(listener).status();
    uint16_t port = TUTTI_TRY(port_of(listener->get()));
    for (const LocalAddress& local : shared_.sources) {
      if (ipv6 || local.address.family == TcpAddress::Family::kIpv4) offer(local, port);
    }
    std::vector<Fd> listeners;
    listeners.push_back(std::move(*listener));
    return listeners;
  }

  Result<std::vector<Fd>> listen_on_sources() {
    std::vector<Fd> listeners;
    Status last;
    for (const LocalAddress& local : shared_.sources) {
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

  void offer(const LocalAddress& local, uint16_t port) {
    if (shared_.host.addresses.size() == kMostTcpAddresses) return;
    shared_.host.addresses.push_back(local.address);
    shared_.host.addresses.back().port = port;
  }

  TransportContext context_;
  TcpShared shared_;
};

}  // namespace

std::unique_ptr<Transport> make_tcp_transport(const TransportContext& context) {
  return std::make_unique<TcpTransport>(context);
}

}  // namespace tutti
