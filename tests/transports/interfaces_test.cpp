// Which of the host's addresses TCP offers and uses.
#include "transports/common/interfaces.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>

#include "transports/checks.h"
#include "transports/common/tcp_meeting.h"
#include "transports/fabric.h"
#include "transports/tcp/tcp.h"

namespace tutti::test {
namespace {

std::unique_ptr<Transport> forced_to(const std::string& interface, int rank, const std::vector<std::byte>& token) {
  return make_tcp_transport({.rank = rank, .nranks = 2, .job = 1, .token = token, .interface = interface});
}

bool has_ipv6_loopback() {
  return local_addresses("::1").ok();
}

}  // namespace

TEST_CASE("ranks meet over the interface that is forced") {
  std::string interface = GENERATE(as<std::string>(), "lo", "127.0.0.1", "::1");
  if (interface == "::1" && !has_ipv6_loopback()) return;
  auto token = token_of(1);
  auto a = forced_to(interface, 0, token), b = forced_to(interface, 1, token);
  check_ok(a->listen());
  check_ok(b->listen());
  TcpHost offered = parse_tcp_host(a->address()).value();
  CHECK(!offered.addresses.empty());
  for (const TcpAddress& address : offered.addresses) CHECK(address.loopback);
  auto to_b = a->open(1), to_a = b->open(0);
  auto statuses = on_threads(2, [&](int rank) {
    Deadline deadline = Deadline::after_ms(kPatienceMs);
    return rank == 0 ? connect(*to_b, b->address(), deadline) : connect(*to_a, a->address(), deadline);
  });
  check_all_ok(statuses);
}

TEST_CASE("an interface that does not exist is an error that names those that do") {
  auto token = token_of(1);
  Status status = forced_to("eth77", 0, token)->listen();
  CHECK(status.code() == Code::kInvalidArgument);
  CHECK(mentions(status, "eth77"));
  CHECK(mentions(status, "lo (127.0.0.1)"));
}

TEST_CASE("loopback addresses are offered last") {
  auto all = local_addresses("").value();
  REQUIRE(!all.empty());
  bool seen_loopback = false;
  for (const LocalAddress& one : all) {
    CHECK(!(seen_loopback && !one.address.loopback));
    seen_loopback = one.address.loopback;
  }
  CHECK(seen_loopback);
}

TEST_CASE("an address survives its encoding") {
  TcpHost host{.host = 77, .addresses = {}};
  const auto all = local_addresses("").value();
  for (const LocalAddress& one : all) host.addresses.push_back(one.address);
  CHECK(parse_tcp_host(encode(host)).value() == host);
  Blob blob = encode(host);
  CHECK(blob.size() <= kMaxBlobBytes);
  for (size_t size = 0; size < blob.size(); ++size) CHECK(!parse_tcp_host(std::span(blob).first(size)).ok());
  host.addresses.resize(1000);
  CHECK(encode(host).size() <= kMaxBlobBytes);
}

TEST_CASE("only a connection within a host goes without the host's congestion control") {
  std::string from = GENERATE(as<std::string>(), "127.0.0.1", "127.0.0.2");  // the second one: as if it were another's
  auto bound = [](const std::string& address) {
    sockaddr_in place{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
    REQUIRE(::inet_pton(AF_INET, address.c_str(), &place.sin_addr) == 1);
    Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0);
    return socket;
  };
  auto control_of = [](const Fd& socket) {
    std::array<char, 16> name{};
    socklen_t size_bytes = name.size();
    REQUIRE(::getsockopt(socket.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size_bytes) == 0);
    return std::string(name.data());
  };
  Fd listener = bound("127.0.0.1"), dialing = bound(from);
  std::string usual = control_of(dialing);
  sockaddr_in place{};
  socklen_t size_bytes = sizeof place;
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&place), &size_bytes) == 0);
  REQUIRE(::connect(dialing.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0);
  tune_connection(dialing.get());
  CHECK(control_of(dialing) == (from == "127.0.0.1" ? "reno" : usual));
}

TEST_CASE("which ranks reach each other over TCP depends on their addresses only") {
  auto token = token_of(1);
  auto transport = forced_to("", 0, token);
  Inventory a, b;
  a.identity.boot_id = "a";
  b.identity.boot_id = "b";
  Nic lo{.name = "lo", .addresses = {"127.0.0.1", "::1"}, .up = true, .loopback = true};
  a.nics = b.nics = {lo};
  auto reach = [&](bool expected) {
    CHECK(transport->reach(a, b, false).has_value() == expected);
    CHECK(transport->reach(b, a, false).has_value() == expected);
  };
  reach(false);  // loopback does not leave the host
  a.nics.push_back({.name = "eth0", .addresses = {"10.0.0.1"}, .up = true});
  b.nics.push_back({.name = "eth0", .addresses = {"2001:db8::2"}, .up = true});
  reach(false);  // no family in common
  b.nics.push_back({.name = "eth1", .addresses = {"192.168.7.2"}, .up = false});
  reach(false);  // down
  b.nics.back().up = true;
  reach(true);
  b = Inventory{.identity = a.identity, .nics = {lo}};
  reach(true);  // one host
}

}  // namespace tutti::test
