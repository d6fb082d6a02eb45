// Which of a peer's addresses is kept: over loopback sockets, with handshakes that go on when the test says so.
#include "transports/common/dialer.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <initializer_list>
#include <optional>
#include <thread>

#include "transports/checks.h"
#include "transports/common/tcp_host.h"
#include "transports/fabric.h"
#include "transports/listeners.h"

namespace tutti::test {
namespace {

LinkIdentity identity(int rank) { return make_identity(Wire::kTcp, 5, rank, 4, token_of(1)).value(); }

// One address of rank 1, which answers as far as answer() is called.
class Door {
 public:
  explicit Door(int backlog = 8)
      : listener_(listen_on_loopback(backlog)), address_(address_of(::getsockname, listener_.get())) {}

  DialTarget target() const { return {.address = address_, .text = "a door"}; }
  uint16_t port() const { return tcp_address(address_.get()).port; }
  // Those that come next find the door shut, so many times.
  void slam(int times) { slams_left_ = times; }
  int came() const { return came_; }
  void answer() {
    if (!connection_) connection_ = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connection_) return;
    if (!handshake_) ++came_;
    if (slams_left_ > 0) {
      --slams_left_;
      return connection_.reset();
    }
    if (!handshake_) handshake_.emplace(self_, Handshake::Role::kResponder, -1, connection_.get());
    (void)handshake_->advance();
  }

 private:
  LinkIdentity self_ = identity(1);
  Fd listener_, connection_;
  SocketAddress address_;
  std::optional<Handshake> handshake_;
  int slams_left_ = 0;
  int came_ = 0;
};

// Until the dialer has a connection or the time is over: the port that it leads to, or 0.
uint16_t dial(Dialer& dialer, std::initializer_list<Door*> answering, int for_ms) {
  for (Deadline end = Deadline::after_ms(for_ms); !end.passed();) {
    for (Door* door : answering) door->answer();
    if (dialer.advance().value() == Progress::kDone) {
      Fd connection = dialer.take();
      return tcp_address(address_of(::getpeername, connection.get()).get()).port;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return 0;
}

constexpr int kLongMs = 20'000;

}  // namespace

TEST_CASE("a preferred address whose answer takes longer is kept all the same") {
  Door preferred, other;
  LinkIdentity self = identity(2);
  Dialer dialer(self, 1, {preferred.target(), other.target()}, [](int) { return Status(); });
  REQUIRE(dial(dialer, {&other}, 100) == 0);  // longer than for one where nobody is
  CHECK(dial(dialer, {&preferred, &other}, kLongMs) == preferred.port());
}

TEST_CASE("a preferred address that never answers is left for another one") {
  Door preferred, other;
  LinkIdentity self = identity(2);
  Dialer dialer(self, 1, {preferred.target(), other.target()}, [](int) { return Status(); });
  CHECK(dial(dialer, {&other}, kLongMs) == other.port());
}

TEST_CASE("a preferred address where nobody takes the connection is left for another one") {
  Door preferred(1), other;
  Fd waiting[2];
  SocketAddress address = preferred.target().address;
  for (Fd& each : waiting) {  // the queue is full then
    each = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(each.get(), address.get(), address.size_bytes) == 0);
  }
  LinkIdentity self = identity(2);
  Dialer dialer(self, 1, {preferred.target(), other.target()}, [](int) { return Status(); });
  CHECK(dial(dialer, {&other}, kLongMs) == other.port());
  CHECK(dialer.report().find("no answer") != std::string::npos);
}

TEST_CASE("an address that ends connections during the handshake is dialled again until it answers") {
  Door door;
  door.slam(3);
  LinkIdentity self = identity(2);
  Dialer dialer(self, 1, {door.target()}, [](int) { return Status(); });
  CHECK(dial(dialer, {&door}, kLongMs) == door.port());
  CHECK(door.came() == 4);
}

TEST_CASE("an address that goes on ending connections is dialled after pauses that grow, and told") {
  Door door;
  door.slam(1000);
  LinkIdentity self = identity(2);
  Dialer dialer(self, 1, {door.target()}, [](int) { return Status(); });
  CHECK(dial(dialer, {&door}, 500) == 0);
  CHECK(door.came() >= 3);
  CHECK(door.came() <= 7);  // 10, 20, 40... ms lie between them
  INFO(dialer.report());
  CHECK(dialer.report().find("a door: the peer closed the connection during the handshake ") == 0);
}

TEST_CASE("an address that ends connections is left for another one") {
  Door preferred, other;
  preferred.slam(1000);
  LinkIdentity self = identity(2);
  Dialer dialer(self, 1, {preferred.target(), other.target()}, [](int) { return Status(); });
  CHECK(dial(dialer, {&preferred, &other}, kLongMs) == other.port());
}

TEST_CASE("a wrong answer is not asked for again") {
  HelloBytes hello = encode(LinkHello{.wire = Wire::kTcp, .job = 5, .rank = 1, .peer = 2, .nranks = 4, .nonce = {}});
  SECTION("of another version") { hello[4] ^= std::byte{7}; }
  SECTION("not of tutti") { hello[0] ^= std::byte{7}; }
  SECTION("of another job") { hello[kHelloHeadBytes] ^= std::byte{7}; }
  Fd listener = listen_on_loopback(8);
  LinkIdentity self = identity(2);
  DialTarget target{.address = address_of(::getsockname, listener.get()), .text = "a door"};
  Dialer dialer(self, 1, {target}, [](int) { return Status(); });
  REQUIRE(dialer.advance().ok());
  pollfd coming{.fd = listener.get(), .events = POLLIN, .revents = 0};
  REQUIRE(::poll(&coming, 1, kLongMs) == 1);
  Fd connection(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(::send(connection.get(), hello.data(), hello.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(hello.size()));
  connection.reset();  // which alone would be a reason to dial again
  Status failed;
  for (Deadline end = Deadline::after_ms(kLongMs); failed.ok() && !end.passed();) {
    if (auto advanced = dialer.advance(); !advanced.ok()) failed = std::move(advanced).status();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(failed.code() == Code::kRemote);
  CHECK(::poll(&coming, 1, 0) == 0);
}

}  // namespace tutti::test
