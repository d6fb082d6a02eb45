// Which of a peer's addresses is kept: over loopback sockets, with handshakes that go on when the test says so.
#include "transports/common/dialer.h"

#include <sys/socket.h>

#include <chrono>
#include <initializer_list>
#include <optional>
#include <thread>

#include "transports/checks.h"
#include "transports/common/tcp_host.h"
#include "transports/fabric.h"

namespace tutti::test {
namespace {

LinkIdentity identity(int rank) { return make_identity(Wire::kTcp, 5, rank, 4, token_of(1)).value(); }

// One address of rank 1, which answers as far as answer() is called.
class Door {
 public:
  explicit Door(int backlog = 8) : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    TcpAddress loopback;
    loopback.bytes = {std::byte{127}, std::byte{0}, std::byte{0}, std::byte{1}};
    SocketAddress address = socket_address(loopback, 0);
    REQUIRE(::bind(listener_.get(), address.get(), address.size_bytes) == 0);
    REQUIRE(::listen(listener_.get(), backlog) == 0);
    address_ = address_of(::getsockname, listener_.get());
  }

  DialTarget target() const { return {.address = address_, .text = "a door"}; }
  uint16_t port() const { return tcp_address(address_.get()).port; }
  void answer() {
    if (!connection_) connection_ = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!connection_) return;
    if (!handshake_) handshake_.emplace(self_, Handshake::Role::kResponder, -1, connection_.get());
    (void)handshake_->advance();
  }

  template <typename Ask>
  static SocketAddress address_of(Ask ask, int socket) {
    SocketAddress address;
    address.size_bytes = sizeof address.storage;
    REQUIRE(ask(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size_bytes) == 0);
    return address;
  }

 private:
  LinkIdentity self_ = identity(1);
  Fd listener_, connection_;
  SocketAddress address_;
  std::optional<Handshake> handshake_;
};

// Until the dialer has a connection or the time is over: the port that it leads to, or 0.
uint16_t dial(Dialer& dialer, std::initializer_list<Door*> answering, int for_ms) {
  for (Deadline end = Deadline::after_ms(for_ms); !end.passed();) {
    for (Door* door : answering) door->answer();
    if (dialer.advance().value() == Progress::kDone) {
      Fd connection = dialer.take();
      return tcp_address(Door::address_of(::getpeername, connection.get()).get()).port;
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

}  // namespace tutti::test
