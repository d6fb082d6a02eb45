// Two ranks in two network namespaces, as on two hosts: a cable between them, and beside it an address that both have
// (as container bridges do), which leads each rank to itself. Needs root and ip(8); else it is skipped and says so.
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "transports/fabric.h"

namespace tutti::test {
namespace {

constexpr int kSkipped = 77;

bool shell(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

// In the namespace of rank `self`: wait for the cable, join the other rank, exchange one put each.
Status run_rank(int self, int socket) {
  char go = 0;
  if (::recv(socket, &go, 1, 0) != 1) return error(Code::kSystem, "no cable");
  // Both ranks offer the trap too, and both try it.
  std::string trap =
      "ip link add abridge type veth peer name aport && ip link set aport up && "
      "ip addr add 172.17.0.1/16 dev abridge && ip link set abridge up";
  if (!shell(fmt::format("ip link set lo up && {} && ip addr add 10.77.0.{}/24 dev cable && ip link set cable up", trap,
                         self + 1))) {
    return error(Code::kSystem, "cannot set up the interfaces");
  }
  Node node(Tcp::make(), self, 2, 5);
  const Window& window = node.add_window(1 << 20);
  TUTTI_TRY(node.listen());
  Blob address = node.transport->address();
  ::send(socket, address.data(), address.size(), 0);
  address.resize(kMaxBlobBytes);
  address.resize(static_cast<size_t>(std::max<ssize_t>(0, ::recv(socket, address.data(), address.size(), 0))));
  TUTTI_TRY(node.connect(1 - self, address, Deadline::after_ms(kPatienceMs)));
  Link& link = node.link(1 - self);
  TUTTI_TRY(link.share(*window.exported));
  const RemoteMemory* remote = nullptr;
  TUTTI_TRY(await_until([&] { return (remote = link.find(1)) != nullptr; }, {&link}));
  auto mine = pattern(500'000, static_cast<uint64_t>(self)), theirs = pattern(500'000, static_cast<uint64_t>(1 - self));
  TUTTI_TRY(put(link, {remote, 4096}, mine, {remote, 0}, Line{{1}}));
  TUTTI_TRY(await(link, window.line(0), 1));
  if (!std::equal(theirs.begin(), theirs.end(), window.at(4096))) return error(Code::kInternal, "wrong bytes");
  // Stay until the other one has everything too.
  TUTTI_TRY(signal(link, {remote, 64}, Line{{1}}));
  return await(link, window.line(64), 1);
}

int run() {
  int sockets[2][2];
  pid_t ranks[2];
  for (int self : {0, 1}) {
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets[self]) != 0) return 1;
    ranks[self] = ::fork();
    if (ranks[self] != 0) {
      ::close(sockets[self][1]);  // so that the end of a rank is the end of its socket
      continue;
    }
    ::alarm(60);
    char ready = ::unshare(CLONE_NEWNET) == 0;
    ::send(sockets[self][1], &ready, 1, 0);
    if (!ready) ::_exit(kSkipped);
    Status status = run_rank(self, sockets[self][1]);
    if (!status.ok()) std::fprintf(stderr, "rank %d: %s\n", self, std::string(status.message()).c_str());
    ::_exit(status.ok() ? 0 : 1);
  }
  bool wired = true;
  for (int self : {0, 1}) {
    char ready = 0;
    wired = ::recv(sockets[self][0], &ready, 1, 0) == 1 && ready && wired;
  }
  wired =
      wired && shell(fmt::format("ip link add cable netns {} type veth peer name cable netns {}", ranks[0], ranks[1]));
  if (wired) {
    Blob addresses[2];
    for (int self : {0, 1}) ::send(sockets[self][0], "g", 1, 0);
    for (int self : {0, 1}) {
      addresses[self].resize(kMaxBlobBytes);
      ssize_t size = ::recv(sockets[self][0], addresses[self].data(), addresses[self].size(), 0);
      addresses[self].resize(static_cast<size_t>(std::max<ssize_t>(0, size)));
    }
    for (int self : {0, 1}) {
      ::send(sockets[self][0], addresses[1 - self].data(), addresses[1 - self].size(), MSG_NOSIGNAL);
    }
  }
  bool failed = false;
  for (pid_t rank : ranks) {
    if (!wired) ::kill(rank, SIGKILL);
    int status = 0;
    ::waitpid(rank, &status, 0);
    failed = failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }
  if (!wired) {
    std::puts("skipped: two connected network namespaces cannot be made here (needs root and ip from iproute2)");
    return kSkipped;
  }
  std::puts(failed ? "failed" : "passed: two ranks in two network namespaces talk past an address that both have");
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace tutti::test

int main() { return tutti::test::run(); }
