// What the shm transport does not believe.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "transports/checks.h"
#include "transports/fabric.h"
#include "transports/shm/meeting.h"
#include "transports/shm/shm.h"

namespace tutti::test {

TEST_CASE("memory of a peer is mapped only if it cannot shrink and is as large as announced") {
  Fd sealed = create_memfd("tutti-test", 8192).value();
  CHECK(map_checked(sealed.get(), 8192).ok());
  CHECK(map_checked(sealed.get(), 4096).ok());
  CHECK(mentions(map_checked(sealed.get(), 8193).status(), "announced 8193 bytes"));
  CHECK(!map_checked(sealed.get(), UINT64_MAX).ok());
  CHECK(!map_checked(-1, 1).ok());
  Fd loose(::memfd_create("tutti-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(loose.get(), 8192) == 0);
  CHECK(mentions(map_checked(loose.get(), 8192).status(), "could shrink"));
  Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  CHECK(!map_checked(null.get(), 1).ok());
}

TEST_CASE("descriptors that arrive close when the process runs another program") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  SideChannel from{Fd(ends[0])}, to{Fd(ends[1])};
  Fd memory = create_memfd("tutti-test", 4096).value();
  const int fds[] = {memory.get()};
  check_ok(from.send(encode(ShmNote{.kind = ShmNote::Kind::kShare, .id = 1, .size_bytes = 4096}), fds));
  auto message = to.receive().value();
  REQUIRE(message);
  REQUIRE(message->fds[0]);
  CHECK((::fcntl(message->fds[0].get(), F_GETFD) & FD_CLOEXEC) != 0);
}

TEST_CASE("sharing never blocks: what the socket does not take is sent later, in order") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  SideChannel from{Fd(ends[0])}, to{Fd(ends[1])};
  constexpr uint32_t kNotes = 2000;
  for (uint32_t id = 1; id <= kNotes; ++id) {
    Fd memory = create_memfd("tutti-test", 4096).value();
    if (id % 100 == 0) {
      const int fds[] = {memory.get()};
      check_ok(from.send(encode(ShmNote{.kind = ShmNote::Kind::kShare, .id = id, .size_bytes = 4096}), fds));
    } else {
      check_ok(from.send(encode(ShmNote{.kind = ShmNote::Kind::kRelease, .id = id, .size_bytes = 0})));
    }
  }
  CHECK(from.has_queued());
  for (uint32_t id = 1; id <= kNotes; ++id) {
    auto message = to.receive().value();
    REQUIRE(message);
    CHECK(parse_shm_note(message->view()).value().id == id);
    CHECK(static_cast<bool>(message->fds[0]) == (id % 100 == 0));
    check_ok(from.flush());
  }
  CHECK(!from.has_queued());
}

TEST_CASE("memory without a descriptor cannot be exported over shm") {
  auto token = token_of(1);
  auto transport = make_shm_transport({.rank = 0, .nranks = 2, .job = 1, .token = token, .interface = {}});
  std::vector<std::byte> memory(4096);
  CHECK(transport->export_memory(memory, -1, {}).status().code() == Code::kInvalidArgument);
}

TEST_CASE("which ranks reach each other over shm depends on kernel and network namespace") {
  auto token = token_of(1);
  auto transport = make_shm_transport({.rank = 0, .nranks = 2, .job = 1, .token = token, .interface = {}});
  Inventory a, b;
  CHECK(!transport->reach(a, b, false));  // unknown hosts
  a.identity =
      b.identity = {.boot_id = "x", .net_namespace = 1, .pid_namespace = 2, .mount_namespace = 3, .user_namespace = 4};
  CHECK(transport->reach(a, b, false) == LinkTraits{.mappable = true, .pullable = true});
  b.identity.mount_namespace = 9;
  CHECK(transport->reach(a, b, false).has_value());
  b.limits.ptrace_scope = 1;
  CHECK(transport->reach(a, b, false) == LinkTraits{.mappable = true, .pullable = false});
  CHECK(transport->reach(b, a, false) == transport->reach(a, b, false));
  b.identity.net_namespace = 9;
  CHECK(!transport->reach(a, b, false));
}

}  // namespace tutti::test
