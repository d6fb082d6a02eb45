// Whoever else connects to a rank: garbage, port scanners, half-open connections, other versions, other jobs. None of
// them hangs, crashes or joins, and the real peer still gets in.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <thread>

#include "transports/checks.h"
#include "transports/common/hello.h"
#include "transports/fabric.h"
#include "transports/shm/wire.h"
#include "transports/common/tcp_host.h"

namespace tutti::test {
namespace {

constexpr uint64_t kJob = 4242;

// A connected socket to whoever listens at `address`.
Fd connect_raw(Shm, const Blob& address) {
  std::string name = parse_shm_address(address).value();
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path + 1, name.data(), name.size());
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&where), size) != 0) fd.reset();
  return fd;
}

Fd connect_raw(Tcp, const Blob& address) {
  TcpHost host = parse_tcp_host(address).value();
  for (const TcpAddress& one : host.addresses) {
    if (one.link_local) continue;
    SocketAddress where = socket_address(one, 0);
    Fd fd(::socket(where.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd.get(), where.get(), where.size_bytes) == 0) return fd;
  }
  return Fd();
}

Wire wire_of(Shm) { return Wire::kShm; }
Wire wire_of(Tcp) { return Wire::kTcp; }

LinkHello hello_of_rank_1(Wire wire) {
  LinkHello hello{.wire = wire, .job = kJob, .rank = 1, .peer = 0, .nranks = 2, .nonce = {}};
  fill_random(hello.nonce);
  return hello;
}

void say(const Fd& fd, std::span<const std::byte> bytes) {
  (void)::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::vector<std::byte> text(std::string_view words) {
  auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

// True when the other end closes within the patience of a test.
bool is_turned_away(const Fd& fd) {
  timeval patience{.tv_sec = kPatienceMs / 1000, .tv_usec = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::byte scrap[256];
  ssize_t got;
  while ((got = ::recv(fd.get(), scrap, sizeof scrap, 0)) > 0) {
  }
  return got == 0 || errno == ECONNRESET;
}

}  // namespace

TEMPLATE_TEST_CASE("strangers are turned away while the real peer gets in", "", Shm, Tcp) {
  auto factory = TestType::make();
  Node real(factory, 1, 2, kJob), target(factory, 0, 2, kJob);
  check_ok(real.listen());
  check_ok(target.listen());
  Blob address = target.transport->address();
  Wire wire = wire_of(TestType());

  std::vector<Fd> refused, silent;
  auto refuse = [&](std::span<const std::byte> bytes) {
    refused.push_back(connect_raw(TestType(), address));
    REQUIRE(refused.back());
    say(refused.back(), bytes);
  };
  refuse(text("GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"));
  refuse(std::vector<std::byte>(64));
  refuse(pattern(4000, 3));
  HelloBytes other_version = encode(hello_of_rank_1(wire));
  other_version[4] ^= std::byte{7};
  refuse(other_version);
  LinkHello other = hello_of_rank_1(wire);
  other.job = kJob + 1;
  refuse(encode(other));
  other = hello_of_rank_1(wire);
  other.rank = 2;
  refuse(encode(other));
  other = hello_of_rank_1(wire);
  other.rank = 0;
  refuse(encode(other));
  refuse(encode(hello_of_rank_1(wire)));
  say(refused.back(), pattern(kProofBytes, 9));  // a proof without the token

  silent.push_back(connect_raw(TestType(), address));
  silent.push_back(connect_raw(TestType(), address));
  say(silent.back(), text("x"));
  silent.push_back(connect_raw(TestType(), address));
  say(silent.back(), encode(hello_of_rank_1(wire)));
  connect_raw(TestType(), address).reset();

  check_all_ok(connect_ranks({&target, &real}, Deadline::after_ms(kPatienceMs)));
  // Those who are still pending are turned away while somebody waits for another connection.
  Node late(factory, 0, 2, kJob);
  std::thread waiting([&] { (void)target.connect(1, {}, Deadline::after_ms(1000)); });
  for (const Fd& fd : refused) CHECK(is_turned_away(fd));
  waiting.join();
}

TEMPLATE_TEST_CASE("a crowd of silent connections does not keep the real peer out", "", Shm, Tcp) {
  auto factory = TestType::make();
  Node real(factory, 1, 2, kJob), target(factory, 0, 2, kJob);
  check_ok(real.listen());
  check_ok(target.listen());
  std::vector<Fd> crowd;
  for (int i = 0; i < 300; ++i) {
    crowd.push_back(connect_raw(TestType(), target.transport->address()));
    REQUIRE(crowd.back());
  }
  check_all_ok(connect_ranks({&target, &real}, Deadline::after_ms(kPatienceMs)));
}

TEMPLATE_TEST_CASE("both ends learn that a token is wrong", "", Shm, Tcp) {
  auto factory = TestType::make();
  Node accepting(factory, 0, 2, kJob, 1), connecting(factory, 1, 2, kJob, 2);
  check_ok(accepting.listen());
  check_ok(connecting.listen());
  auto statuses = connect_ranks({&accepting, &connecting}, Deadline::after_ms(1000));
  CHECK(statuses[0].code() == Code::kTimeout);
  CHECK(mentions(statuses[0], "wrong token"));
  CHECK(statuses[1].code() == Code::kRemote);
  CHECK(mentions(statuses[1], "token"));
}

TEST_CASE("a listener that is not tutti is told from one that is silent or gone") {
  Node caller(Tcp::make(), 1, 2, kJob);
  check_ok(caller.listen());
  Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress where = socket_address({.loopback = true, .bytes = {std::byte{127}, {}, {}, std::byte{1}}}, 0);
  REQUIRE(::bind(listener.get(), where.get(), where.size_bytes) == 0);
  REQUIRE(::listen(listener.get(), 8) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&where.storage), &where.size_bytes) == 0);
  TcpAddress place = tcp_address(where.get());
  place.loopback = true;
  Blob blob = encode(TcpHost{.host = this_host(), .addresses = {place}});

  SECTION("it says something else") {
    std::thread server([&] {
      Fd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      say(client, text("220 mail.example.org ESMTP\r\n"));
      std::byte scrap[256];
      while (::recv(client.get(), scrap, sizeof scrap, 0) > 0) {
      }
    });
    Status status = caller.connect(0, blob, Deadline::after_ms(kPatienceMs));
    server.join();
    CHECK(status.code() == Code::kRemote);
    CHECK(mentions(status, "not tutti"));
    CHECK(mentions(status, to_text(place)));
  }
  SECTION("it says nothing") {
    Status status = caller.connect(0, blob, Deadline::after_ms(100));
    CHECK(status.code() == Code::kTimeout);
    CHECK(status.place().peer == 0);
  }
  SECTION("it ends every connection") {
    std::atomic<bool> over = false;
    std::thread server([&] {
      pollfd coming{.fd = listener.get(), .events = POLLIN, .revents = 0};
      while (!over) {
        if (::poll(&coming, 1, 10) == 1) Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
      }
    });
    Status status = caller.connect(0, blob, Deadline::after_ms(200));
    over = true;
    server.join();
    INFO(status.message());
    CHECK(status.code() == Code::kTimeout);
    CHECK(status.place().peer == 0);
    CHECK(mentions(status, to_text(place) + ": the peer closed the connection during the handshake "));
  }
  SECTION("it is gone") {
    listener.reset();
    Status status = caller.connect(0, blob, Deadline::after_ms(kPatienceMs));
    CHECK(status.code() == Code::kRemote);
    CHECK(mentions(status, "refused"));
  }
}

TEST_CASE("a wrong address is an error, not a crash") {
  Blob blob = GENERATE(Blob(), Blob(3), Blob(16), pattern(500, 1), encode(TcpHost{}));
  Node tcp(Tcp::make(), 1, 2, kJob), shm(Shm::make(), 1, 2, kJob);
  check_ok(tcp.listen());
  check_ok(shm.listen());
  CHECK(tcp.connect(0, blob, Deadline::after_ms(1000)).code() == Code::kRemote);
  CHECK(shm.connect(0, blob, Deadline::after_ms(1000)).code() == Code::kRemote);
}

}  // namespace tutti::test
