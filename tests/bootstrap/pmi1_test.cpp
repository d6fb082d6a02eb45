// What a rank does whose process manager is slow, or whose system refuses to wait for it.
#include <catch2/catch.hpp>

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>

#include "bootstrap/pmi1.h"

namespace tutti::bootstrap {
namespace {

// The two ends of PMI_FD. The rank's takes less at once than a long line has.
struct Ends {
  int rank = -1;
  int manager = -1;

  Ends() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    rank = ends[0];
    manager = ends[1];
    int bytes = 16 * 1024;
    REQUIRE(::setsockopt(rank, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0);
  }
  Ends(const Ends&) = delete;
  ~Ends() {
    ::close(rank);
    ::close(manager);
  }
};

// The manager's part: answers lines, up to so many, and reads no further. Gives how long the longest one was.
size_t answer(int fd, int lines) {
  size_t longest = 0;
  std::string unread;
  while (lines > 0) {
    char bytes[4096];
    ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
    if (got <= 0) break;
    unread.append(bytes, static_cast<size_t>(got));
    size_t end = unread.find('\n');
    if (end == std::string::npos) continue;
    longest = std::max(longest, end);
    std::string_view answer = unread.starts_with("cmd=init")            ? "cmd=response_to_init rc=0\n"
                              : unread.starts_with("cmd=get_my_kvsname") ? "cmd=my_kvsname kvsname=job\n"
                                                                         : "cmd=put_result rc=0\n";
    unread.erase(0, end + 1);
    if (::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
    --lines;
  }
  return longest;
}

constexpr int kOpening = 2;  // lines that Pmi1::open() sends
const std::string kLong(1 << 20, 'x');

}  // namespace

TEST_CASE("a line goes out whole where the process manager's socket takes it in parts") {
  Ends ends;
  size_t longest = 0;
  std::thread manager([&] { longest = answer(ends.manager, kOpening + 1); });
  Status put;
  {
    auto pmi = Pmi1::open(ends.rank, Deadline::after_ms(20'000));
    put = pmi.ok() ? pmi->put("key", kLong, Deadline::after_ms(20'000)) : pmi.status();
  }
  ::shutdown(ends.rank, SHUT_RDWR);
  manager.join();
  INFO(put.message());
  CHECK(put.ok());
  CHECK(longest > kLong.size());
}

TEST_CASE("a process manager that does not read is waited for until the deadline") {
  Ends ends;
  std::thread manager([&] { (void)answer(ends.manager, kOpening); });
  auto pmi = Pmi1::open(ends.rank, Deadline::after_ms(20'000));
  manager.join();
  REQUIRE(pmi.ok());
  Status put = pmi->put("key", kLong, Deadline::after_ms(100));
  INFO(put.message());
  CHECK(put.code() == Code::kTimeout);
}

TEST_CASE("that the system refuses to wait for the process manager is told") {
  Ends ends;
  // Else who goes on asking would do so forever.
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::shutdown(ends.manager, SHUT_RDWR);
  });
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};  // poll(2) takes no more descriptors than may be open
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  auto pmi = Pmi1::open(ends.rank, Deadline::after_ms(100));
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  end.join();
  INFO(pmi.status().message());
  CHECK(pmi.status().code() == Code::kSystem);
}

}  // namespace tutti::bootstrap
