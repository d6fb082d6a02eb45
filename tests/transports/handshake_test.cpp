// Both ends of a connection prove themselves, or the handshake fails: over a socket pair, without blocking.
#include "transports/common/handshake.h"

#include <sys/socket.h>

#include "transports/checks.h"
#include "transports/fabric.h"

namespace tutti::test {
namespace {

LinkIdentity identity(int rank, int token_seed = 1, uint64_t job = 5, int nranks = 4) {
  return make_identity(Wire::kTcp, job, rank, nranks, token_of(token_seed)).value();
}

struct Ends {
  Ends() {
    int fds[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    a = Fd(fds[0]);
    b = Fd(fds[1]);
  }
  Fd a, b;
};

// Lets both go on until one fails or both are through; the first failure.
Status run(Handshake& initiator, Handshake& responder) {
  bool chosen = false;
  for (int i = 0; i < 10; ++i) {
    auto first = TUTTI_TRY(initiator.advance());
    if (first == Handshake::Reached::kProven && !chosen) {
      chosen = true;
      TUTTI_TRY(initiator.choose());
    }
    if (TUTTI_TRY(responder.advance()) == Handshake::Reached::kDone) return {};
  }
  return error(Code::kTimeout, "no end");
}

}  // namespace

TEST_CASE("two ranks of one job prove themselves") {
  Ends ends;
  LinkIdentity one = identity(1), two = identity(2);
  Handshake initiator(one, Handshake::Role::kInitiator, 2, ends.a.get());
  Handshake responder(two, Handshake::Role::kResponder, -1, ends.b.get());
  check_ok(run(initiator, responder));
  CHECK(responder.peer() == 1);
}

TEST_CASE("any difference between the ends fails the handshake") {
  Ends ends;
  LinkIdentity one = identity(1);
  LinkIdentity two = GENERATE(identity(2, 9), identity(2, 1, 6), identity(2, 1, 5, 8), identity(3));
  Handshake initiator(one, Handshake::Role::kInitiator, 2, ends.a.get());
  Handshake responder(two, Handshake::Role::kResponder, -1, ends.b.get());
  CHECK(run(initiator, responder).code() == Code::kRemote);
}

TEST_CASE("a mirror does not pass for a peer") {
  Ends ends;
  LinkIdentity one = identity(1);
  Handshake initiator(one, Handshake::Role::kInitiator, 2, ends.a.get());
  CHECK(initiator.advance().value() == Handshake::Reached::kWaiting);
  std::byte heard[256];
  ssize_t size = ::recv(ends.b.get(), heard, sizeof heard, 0);
  REQUIRE(size == static_cast<ssize_t>(kHelloBytes));
  REQUIRE(::send(ends.b.get(), heard, static_cast<size_t>(size), 0) == size);
  CHECK(initiator.advance().status().code() == Code::kRemote);
}

TEST_CASE("a recorded handshake is worth nothing on another connection") {
  LinkIdentity one = identity(1), two = identity(2);
  // The initiator's bytes of one handshake...
  Ends first;
  Handshake initiator(one, Handshake::Role::kInitiator, 2, first.a.get());
  Handshake responder(two, Handshake::Role::kResponder, -1, first.b.get());
  (void)initiator.advance();
  std::byte hello[kHelloBytes], proof[kProofBytes];
  REQUIRE(::recv(first.b.get(), hello, sizeof hello, MSG_PEEK) == sizeof hello);
  (void)responder.advance();
  (void)initiator.advance();
  REQUIRE(::recv(first.b.get(), proof, sizeof proof, MSG_PEEK) == sizeof proof);
  CHECK(responder.advance().ok());
  // ... against a fresh responder.
  Ends second;
  Handshake victim(two, Handshake::Role::kResponder, -1, second.b.get());
  REQUIRE(::send(second.a.get(), hello, sizeof hello, 0) == sizeof hello);
  CHECK(victim.advance().value() == Handshake::Reached::kWaiting);
  REQUIRE(::send(second.a.get(), proof, sizeof proof, 0) == sizeof proof);
  Status status = std::move(victim.advance()).status();
  CHECK(mentions(status, "wrong token"));
}

TEST_CASE("messages may come byte by byte") {
  Ends outer, inner;
  LinkIdentity one = identity(1), two = identity(2);
  Handshake initiator(one, Handshake::Role::kInitiator, 2, outer.a.get());
  Handshake responder(two, Handshake::Role::kResponder, -1, inner.b.get());
  bool chosen = false;
  auto done = Handshake::Reached::kWaiting;
  for (int i = 0; i < 1000 && done != Handshake::Reached::kDone; ++i) {
    if (initiator.advance().value() == Handshake::Reached::kProven && !chosen) {
      chosen = true;
      check_ok(initiator.choose());
    }
    std::byte one_byte;
    if (::recv(outer.b.get(), &one_byte, 1, 0) == 1) ::send(inner.a.get(), &one_byte, 1, 0);
    if (::recv(inner.a.get(), &one_byte, 1, 0) == 1) ::send(outer.b.get(), &one_byte, 1, 0);
    done = responder.advance().value();
  }
  CHECK(done == Handshake::Reached::kDone);
}

TEST_CASE("a token of the wrong size is refused") {
  CHECK(!make_identity(Wire::kShm, 1, 0, 2, pattern(31, 1)).ok());
  CHECK(!make_identity(Wire::kShm, 1, 0, 2, {}).ok());
}

}  // namespace tutti::test
