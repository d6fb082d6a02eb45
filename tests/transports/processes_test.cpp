// Ranks that are processes: data between them, and what the survivors see when one is killed.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstring>
#include <thread>

#include "transports/checks.h"
#include "transports/implementations.h"

namespace tutti::test {
namespace {

constexpr size_t kWindow = 1 << 20;
constexpr uint64_t kData = 4096;

// A forked process with a socket to talk to it; killed and reaped when this ends.
class Child {
 public:
  // `work` runs in the child with its end of the socket; its result is the exit status.
  explicit Child(const std::function<int(int)>& work) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      ::_exit(work(ends[1]));
    }
    ::close(ends[1]);
    socket_ = Fd(ends[0]);
  }
  ~Child() { kill_now(); }

  int socket() const { return socket_.get(); }
  // Its exit status; -1: it was killed.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void kill_now() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  Fd socket_;
};

void tell(int socket, std::span<const std::byte> bytes) {
  (void)::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}
Blob hear(int socket) {
  Blob blob(kMaxBlobBytes);
  blob.resize(static_cast<size_t>(std::max<ssize_t>(0, ::recv(socket, blob.data(), blob.size(), 0))));
  return blob;
}

// One of two ranks in processes of their own, connected, with both windows known.
struct Rank {
  Rank(const Factory& factory, int rank) : node(factory, rank, 2, 99) { node.add_window(kWindow); }

  Status join(int socket) {
    TUTTI_TRY(node.listen());
    tell(socket, node.transport->address());
    TUTTI_TRY(node.connect(1 - node.rank, hear(socket), Deadline::after_ms(kPatienceMs)));
    TUTTI_TRY(link().share(*node.windows[0].exported));
    return await_until([&] { return (remote = link().find(1)) != nullptr; }, {&link()});
  }
  Link& link() { return node.link(1 - node.rank); }
  RemoteSlice at(uint64_t offset) const { return {remote, offset}; }

  Node node;
  const RemoteMemory* remote = nullptr;
};

// Polls until the Link fails; with `sleep`, in poll(2) rather than spinning.
Status await_failure(Link& link, bool sleep) {
  Deadline deadline = Deadline::after_ms(kPatienceMs);
  uint64_t completed = 0;
  while (!deadline.passed()) {
    TUTTI_TRY(link.poll(&completed));
    if (!sleep) continue;
    WaitSet waits;
    link.arm(waits);
    waits.fence();
    waits.sleep(deadline.left_ms());
    link.disarm();
  }
  return {};
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("data moves between processes", "", BetweenProcesses) {
  auto there = pattern(300'001, 1), back = pattern(200'003, 2), secret = pattern(100'007, 3);
  auto pushed = pattern(secret.size(), 4);
  Child child([&](int socket) {
    Rank rank(TestType::make(), 1);
    auto own = secret;  // private to this process
    auto run = [&]() -> Status {
      TUTTI_TRY(rank.join(socket));
      TUTTI_TRY(await(rank.link(), rank.node.windows[0].line(0), 1));
      bool same = std::memcmp(rank.node.windows[0].at(kData + 3), there.data(), there.size()) == 0;
      auto address = reinterpret_cast<uint64_t>(own.data());
      TUTTI_TRY(
          put(rank.link(), rank.at(kData), back, rank.at(0), Line{{1, same, address, rank.link().traits().pullable}}));
      TUTTI_TRY(await(rank.link(), rank.node.windows[0].line(0), 2));
      return own == pushed ? Status() : error(Code::kInternal, "other data were pushed");
    };
    return run().ok() ? 0 : 1;
  });
  Rank rank(TestType::make(), 0);
  check_ok(rank.join(child.socket()));
  check_ok(put(rank.link(), rank.at(kData + 3), there, rank.at(0), Line{{1}}));
  const Window& window = rank.node.windows[0];
  check_ok(await(rank.link(), window.line(0), 1));
  CHECK(window.line(0)->words[1] == 1);
  CHECK(std::memcmp(window.at(kData), back.data(), back.size()) == 0);
  CHECK(window.line(0)->words[3] == rank.link().traits().pullable);
  if (rank.link().traits().pullable) {
    std::vector<std::byte> pulled(secret.size());
    check_ok(rank.link().pull(pulled, window.line(0)->words[2]));
    CHECK(pulled == secret);
    CHECK(rank.link().pull(pulled, 4096).code() == Code::kInvalidArgument);
    check_ok(rank.link().push(pushed, window.line(0)->words[2]));
    CHECK(rank.link().push(pushed, 4096).code() == Code::kInvalidArgument);
    check_ok(signal(rank.link(), rank.at(0), Line{{2}}));  // the link survives its callers' mistakes
    CHECK(child.wait() == 0);
  }
}

TEMPLATE_LIST_TEST_CASE("a killed peer is an error that names it", "", BetweenProcesses) {
  bool sleep = GENERATE(false, true);
  Child child([](int socket) {
    Rank rank(TestType::make(), 1);
    if (!rank.join(socket).ok()) return 1;
    (void)signal(rank.link(), rank.at(64), Line{{1}});
    while (true) ::pause();
    return 0;
  });
  Rank rank(TestType::make(), 0);
  check_ok(rank.join(child.socket()));
  check_ok(await(rank.link(), rank.node.windows[0].line(64), 1));
  child.kill_now();
  Status failure = await_failure(rank.link(), sleep);
  CHECK(failure.code() == Code::kRemote);
  CHECK(failure.place().peer == 1);
  CHECK(mentions(failure, "rank 1"));
  CHECK(mentions(failure, "died"));
  // Mapped memory of the dead stays harmless to write, but the Link says no.
  if (rank.remote->mapped != nullptr) std::memset(rank.remote->mapped + kData, 1, kWindow - kData);
  CHECK(rank.link().signal(rank.at(0), Line{{1}}).status().message() == failure.message());
}

TEMPLATE_LIST_TEST_CASE("a peer killed in the middle of a stream of puts is an error that names it", "",
                        BetweenProcesses) {
  Child child([](int socket) {
    Rank rank(TestType::make(), 1);
    if (!rank.join(socket).ok()) return 1;
    while (true) ::pause();
    return 0;
  });
  Rank rank(TestType::make(), 0);
  check_ok(rank.join(child.socket()));
  auto source = pattern(kWindow - kData, 4);
  Status failure;
  Deadline deadline = Deadline::after_ms(kPatienceMs);
  for (uint64_t turn = 1; failure.ok() && !deadline.passed(); ++turn) {
    if (turn == 20) child.kill_now();
    auto result = rank.link().put(rank.at(kData), source, rank.at(0), Line{{turn}});
    uint64_t completed = 0;
    failure = result.ok() ? rank.link().poll(&completed) : result.status();
  }
  CHECK(failure.code() == Code::kRemote);
  CHECK(failure.place().peer == 1);
}

TEMPLATE_LIST_TEST_CASE("a peer killed while the link is being set up ends connect", "", BetweenProcesses) {
  Child child([](int socket) {
    Node node(TestType::make(), 0, 2, 99);
    if (!node.listen().ok()) return 1;
    tell(socket, node.transport->address());
    while (true) ::pause();
    return 0;
  });
  Node node(TestType::make(), 1, 2, 99);
  check_ok(node.listen());
  Blob address = hear(child.socket());
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    child.kill_now();
  });
  Status status = node.connect(0, address, Deadline::after_ms(kPatienceMs));
  killer.join();
  CHECK(status.code() == Code::kRemote);
  CHECK(status.place().peer == 0);
}

}  // namespace tutti::test
