// Who comes while an Acceptor is late, or is late itself, gets in all the same: over loopback sockets, with ends that
// go on when the test says so.
#include "transports/common/acceptor.h"

#include <sys/socket.h>

#include <chrono>
#include <functional>
#include <thread>

#include "transports/checks.h"
#include "transports/common/dialer.h"
#include "transports/fabric.h"
#include "transports/listeners.h"

namespace tutti::test {
namespace {

constexpr int kLongMs = 20'000;
constexpr int kPauseMs = 5'300;  // longer than an Acceptor waits for the next word
constexpr int kMostStrangers = 256;

constexpr uint64_t kJob = 5;

LinkIdentity identity(int rank, int token_seed = 1, uint64_t job = kJob) {
  return make_identity(Wire::kTcp, job, rank, 4, token_of(token_seed)).value();
}

// Rank 0, whom others dial.
class Host {
 public:
  DialTarget target() const { return {.address = address_, .text = "the host"}; }
  int came() const { return came_; }
  void advance() { REQUIRE(acceptor_.advance().ok()); }
  Fd take(int peer) { return acceptor_.take(peer); }
  std::string report() const { return acceptor_.report(); }
  // Called for each that comes, in the middle of advance().
  std::function<void()> on_coming = [] {};

 private:
  static std::vector<Fd> one(Fd listener) {
    std::vector<Fd> listeners;
    listeners.push_back(std::move(listener));
    return listeners;
  }

  Fd listener_ = listen_on_loopback(1000);
  SocketAddress address_ = address_of(::getsockname, listener_.get());
  int came_ = 0;
  Acceptor acceptor_{identity(0), one(std::move(listener_)), [this](int) {
                       ++came_;
                       on_coming();
                       return Status();
                     }};
};

// A rank that dials others.
class Guest {
 public:
  Guest(int rank, std::vector<DialTarget> targets, int token_seed = 1)
      : Guest(identity(rank, token_seed), 0, targets) {}
  Guest(const LinkIdentity& self, int peer, std::vector<DialTarget> targets)
      : rank_(self.rank), self_(self), dialer_(self_, peer, targets, [](int) { return Status(); }) {}

  int rank() const { return rank_; }
  bool done() const { return done_; }
  const Status& failure() const { return failure_; }
  void advance() {
    if (done_ || !failure_.ok()) return;
    auto advanced = dialer_.advance();
    if (!advanced.ok()) {
      failure_ = std::move(advanced).status();
    } else if (*advanced == Progress::kDone) {
      done_ = true;
      connection_ = dialer_.take();
    }
  }

 private:
  const int rank_;
  const LinkIdentity self_;
  Dialer dialer_;
  Fd connection_;
  bool done_ = false;
  Status failure_;
};

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// True when the host has the guest's connection in time.
bool meet(Host& host, Guest& guest) {
  Fd connection;
  for (Deadline end = Deadline::after_ms(kLongMs); !end.passed() && guest.failure().ok(); nap()) {
    guest.advance();
    host.advance();
    if (!connection) connection = host.take(guest.rank());
    if (connection && guest.done()) return true;
  }
  return false;
}

std::vector<Fd> strangers(const Host& host, int count) {
  std::vector<Fd> fds;
  SocketAddress where = host.target().address;
  for (int i = 0; i < count; ++i) {
    fds.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(fds.back().get(), where.get(), where.size_bytes) == 0);
  }
  return fds;
}

void await_coming(Host& host, int count) {
  for (Deadline end = Deadline::after_ms(kLongMs); host.came() < count && !end.passed(); nap()) host.advance();
  REQUIRE(host.came() == count);
}

// Goes on with both until the guest has got the host's hello and not read it.
void say_hello(Host& host, Guest& guest) {
  for (int i = 0, before = host.came(); host.came() == before && i < kLongMs; ++i, nap()) {
    guest.advance();
    host.advance();
  }
  for (int i = 0; i < 5; ++i, nap()) host.advance();
}

}  // namespace

TEST_CASE("ends that pause in the middle of a handshake get through afterwards") {
  Host served, late;
  Guest after_hello(2, {served.target()}), patient(1, {late.target()});
  say_hello(served, after_hello);
  // Proven, and waiting for a better address.
  Fd silent = listen_on_loopback(8);
  DialTarget better{.address = address_of(::getsockname, silent.get()), .text = "nobody"};
  Guest before_choice(3, {better, served.target()});
  for (int i = 0; i < 10; ++i, nap()) {
    before_choice.advance();
    served.advance();
  }
  say_hello(late, patient);

  for (Deadline pause = Deadline::after_ms(kPauseMs); !pause.passed(); nap()) {
    served.advance();
    patient.advance();
  }
  INFO(served.report());
  CHECK(served.report().find("2 connection(s) were turned away") == 0);
  for (Guest* guest : {&after_hello, &before_choice}) {
    bool met = meet(served, *guest);
    INFO("rank " << guest->rank() << ": " << guest->failure().message());
    CHECK(met);
  }
  CHECK(meet(late, patient));
}

TEST_CASE("a rank whose connection gave way to newer ones dials again") {
  Host host;
  Guest guest(1, {host.target()});
  say_hello(host, guest);
  std::vector<Fd> crowd = strangers(host, kMostStrangers);
  await_coming(host, 1 + kMostStrangers);
  bool met = meet(host, guest);
  INFO(guest.failure().message());
  CHECK(met);
  CHECK(host.came() == 2 + kMostStrangers);
}

TEST_CASE("what a connection has said is read before it gives way to newer ones") {
  Host host;
  Guest guest(1, {host.target()});
  say_hello(host, guest);
  std::vector<Fd> crowd = strangers(host, kMostStrangers - 1);
  await_coming(host, kMostStrangers);
  guest.advance();  // its proof is on its way
  host.on_coming = [&] {
    for (int i = 0; i < 100 && !guest.done(); ++i, nap()) guest.advance();
  };
  std::vector<Fd> last = strangers(host, 1);
  await_coming(host, kMostStrangers + 1);
  CHECK(guest.done());
  CHECK(meet(host, guest));
  CHECK(host.came() == kMostStrangers + 1);
}

TEST_CASE("who finds another rank or another job is told at once") {
  Host host;
  Guest other_rank(identity(1), 3, {host.target()}), other_job(identity(1, 1, kJob + 1), 0, {host.target()});
  CHECK(!meet(host, other_rank));
  CHECK(mentions(other_rank.failure(), "it is rank 0 who answers"));
  CHECK(!meet(host, other_job));
  CHECK(mentions(other_job.failure(), "the peer belongs to another job"));
  CHECK(host.came() == 2);
}

TEST_CASE("who has proven who it is stays, however many strangers come") {
  Host host;
  Fd silent = listen_on_loopback(8);
  DialTarget better{.address = address_of(::getsockname, silent.get()), .text = "nobody"};
  Guest guest(1, {better, host.target()});
  say_hello(host, guest);
  for (int i = 0; i < 5; ++i, nap()) {  // proven, and waiting for a better address
    guest.advance();
    host.advance();
  }
  REQUIRE(!guest.done());
  std::vector<Fd> crowd = strangers(host, kMostStrangers + 1);
  await_coming(host, 2 + kMostStrangers);
  CHECK(meet(host, guest));
  CHECK(host.came() == 2 + kMostStrangers);
}

TEST_CASE("a wrong token ends it at once") {
  Host host;
  Guest guest(1, {host.target()}, 2);
  CHECK(!meet(host, guest));
  INFO(guest.failure().message());
  CHECK(guest.failure().code() == Code::kRemote);
  CHECK(mentions(guest.failure(), "wrong token"));
  CHECK(host.came() == 1);
  CHECK(host.report().find("wrong token") != std::string::npos);
}

}  // namespace tutti::test
