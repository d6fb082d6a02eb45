// Ranks that die, stop, leave or abort, and what the others hear of it.
#include <catch2/catch.hpp>

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <set>

#include "bootstrap/processes.h"
#include "bootstrap/ranks.h"
#include "bootstrap/sockets.h"

namespace tutti::bootstrap {
namespace {

// A child that holds what this process has open, until the tests end it. Its number.
pid_t leave_child() {
  pid_t child = ::fork();
  if (child != 0) return child;
  ::alarm(60);  // should the tests be killed
  for (;;) ::pause();
}

// What a rank says of its child, which ends with this.
class Child {
 public:
  explicit Child(const std::string& line) { std::sscanf(line.c_str(), "child %d", &pid_); }
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~Child() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
  }

 private:
  pid_t pid_ = -1;
};

size_t open_files() {
  auto files = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

// Joins, tells "joined", then every event as a line, until it is told to leave by SIGTERM (or killed). Who `forks`
// tells of its child too, and ends with the next SIGTERM.
void live(const JoinInfo& info, const JoinOptions& options, int out, bool forks) {
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigaddset(&term, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &term, nullptr);
  size_t files = open_files();
  auto plane = join_control_plane(info, {}, options, Deadline::after_ms(20'000));
  if (!plane.ok()) return tell(out, std::string(plane.status().message()));
  ControlEvents events;
  events.on_lost = [out](int rank, Status why) { tell(out, fmt::format("lost {} {}", rank, why.message())); };
  events.on_abort = [out](int rank, Status why) { tell(out, fmt::format("abort {} {}", rank, why.message())); };
  if (Status started = (*plane)->start(events); !started.ok()) return;
  tell(out, "joined");
  if (forks) tell(out, fmt::format("child {}", leave_child()));
  int number = 0;
  while (sigwait(&term, &number) == 0 && number == SIGUSR1)
    (*plane)->abort(error(Code::kAborted, "enough of rank {}", info.rank));
  (void)(*plane)->leave({}, Deadline::after_ms(5'000));
  plane->reset();
  tell(out, open_files() == files ? "left" : "left files open");
  if (forks) sigwait(&term, &number);
}

std::vector<Process> start_job(int nranks, const UniqueId& id, const std::function<JoinOptions(int)>& options_of,
                               const std::set<int>& parents = {}) {
  std::vector<Process> job;
  for (int rank = 0; rank < nranks; ++rank) {
    job.emplace_back(
        [&](int out) { live(info_of(rank, nranks, id), options_of(rank), out, parents.contains(rank)); });
  }
  for (Process& process : job) REQUIRE(process.line() == "joined");
  return job;
}

std::vector<Process> start_local_job(int nranks, const std::set<int>& parents = {}) {
  return start_job(nranks, fresh_id(UniqueId::Kind::kLocal), [](int) { return JoinOptions(); }, parents);
}

// The ranks that a process says are lost: as many lines as `count`.
std::set<int> lost_of(Process& process, size_t count) {
  std::set<int> lost;
  for (size_t i = 0; i < count; ++i) {
    std::string line = process.line();
    int rank = -1;
    if (std::sscanf(line.c_str(), "lost %d", &rank) == 1) lost.insert(rank);
  }
  return lost;
}

void check_survivors(int nranks, const std::set<int>& dead) {
  INFO("ranks " << nranks << ", dead " << fmt::format("{}", fmt::join(dead, " ")));
  std::vector<Process> job = start_local_job(nranks);
  for (int rank : dead) job[static_cast<size_t>(rank)].signal(SIGKILL);
  for (int rank = 0; rank < nranks; ++rank) {
    if (!dead.contains(rank)) CHECK(lost_of(job[static_cast<size_t>(rank)], dead.size()) == dead);
  }
}

TEST_CASE("every survivor learns of each killed rank") {
  for (int nranks : {2, 3, 5, 8}) {
    for (int dead = 0; dead < nranks; ++dead) check_survivors(nranks, {dead});
  }
}

TEST_CASE("every survivor learns of several ranks killed at once") {
  check_survivors(8, {0, 1});
  check_survivors(8, {1, 3, 5, 7});
  check_survivors(9, {0, 1, 2, 3, 4});
  check_survivors(16, {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST_CASE("every survivor learns of a group whose members had neighbours only among the dead") {
  std::set<int> dead;
  for (int rank = 0; rank < 30; ++rank) dead.insert(rank);
  check_survivors(32, dead);
}

TEST_CASE("survivors that are nowhere near each other learn of all the others") {
  for (const std::set<int>& survivors : {std::set<int>{5, 20}, {0, 31}, {3, 14, 25}, {17}}) {
    std::set<int> dead;
    for (int rank = 0; rank < 32; ++rank) {
      if (!survivors.contains(rank)) dead.insert(rank);
    }
    check_survivors(32, dead);
  }
}

TEST_CASE("every survivor soon learns of killed ranks whose children hold their connections") {
  for (const auto& [nranks, dead] : {std::pair(2, std::set<int>{1}), {5, {2}}, {16, {0, 1, 2, 3, 4, 5, 6, 7, 9, 11}}}) {
    INFO("ranks " << nranks);
    std::vector<Process> job = start_local_job(nranks, dead);
    std::vector<Child> children;
    for (int rank : dead) children.emplace_back(job[static_cast<size_t>(rank)].line());
    Deadline soon = Deadline::after_ms(3'000);
    for (int rank : dead) job[static_cast<size_t>(rank)].signal(SIGKILL);
    for (int rank = 0; rank < nranks; ++rank) {
      if (!dead.contains(rank)) CHECK(lost_of(job[static_cast<size_t>(rank)], dead.size()) == dead);
    }
    CHECK(!soon.passed());
  }
}

TEST_CASE("a rank that leaves in good order is not lost when it ends before its child") {
  for (int round = 0; round < 10; ++round) {
    std::vector<Process> job = start_local_job(3, {1});
    Child child(job[1].line());
    job[1].signal(SIGTERM);
    REQUIRE(job[1].line() == "left");
    job[1].signal(SIGTERM);
    job[2].signal(SIGKILL);
    CHECK(job[0].line().starts_with("lost 2 "));
    job[0].signal(SIGTERM);
    CHECK(job[0].line() == "left");
  }
}

TEST_CASE("ranks that leave do not wait for each other's children") {
  Deadline soon = Deadline::after_ms(3'000);
  for (int round = 0; round < 10; ++round) {
    std::vector<Process> job = start_local_job(2, {0, 1});
    std::vector<Child> children;
    for (Process& process : job) children.emplace_back(process.line());
    for (Process& process : job) process.signal(SIGTERM);
    for (Process& process : job) CHECK(process.line() == "left");
  }
  CHECK(!soon.passed());
}

TEST_CASE("a rank that left in good order is not taken for dead when its neighbours die") {
  std::vector<Process> job = start_local_job(16);
  job[8].signal(SIGTERM);
  REQUIRE(job[8].line() == "left");
  // All neighbours of rank 8 but 9 and 12 die: the others find its door closed.
  const std::set<int> dead{7, 6, 4, 0, 10, 5, 3, 2, 1};
  for (int rank : dead) job[static_cast<size_t>(rank)].signal(SIGKILL);
  for (int rank : {9, 11, 12, 13, 14, 15}) CHECK(lost_of(job[static_cast<size_t>(rank)], dead.size()) == dead);
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  for (int rank : {9, 11, 12, 13, 14, 15}) {
    job[static_cast<size_t>(rank)].signal(SIGTERM);
    CHECK(job[static_cast<size_t>(rank)].line() == "left");
  }
}

TEST_CASE("a rank that leaves in good order is not lost, and one that dies later still is") {
  std::vector<Process> job = start_local_job(5);
  job[1].signal(SIGTERM);
  REQUIRE(job[1].line() == "left");
  job[4].signal(SIGKILL);
  for (int rank : {0, 2, 3}) CHECK(job[static_cast<size_t>(rank)].line().starts_with("lost 4 "));
}

TEST_CASE("an abort reaches every other rank once, with its sentence") {
  std::vector<Process> job = start_local_job(7);
  job[3].signal(SIGUSR1);
  for (int rank : {0, 1, 2, 4, 5, 6}) CHECK(job[static_cast<size_t>(rank)].line() == "abort 3 enough of rank 3");
  for (Process& process : job) process.signal(SIGTERM);
  for (Process& process : job) CHECK(process.line() == "left");
}

TEST_CASE("a stopped process on another host counts as lost after the silence bound") {
  UniqueId id = fresh_id(UniqueId::Kind::kRankZero);
  // Ask the kernel for a port that is free now.
  uint16_t port = listen_tcp(0, "test").value().endpoint.port;
  id.addresses = {Endpoint::ip("127.0.0.1", port).value()};
  std::vector<Process> job = start_job(3, id, [](int rank) {
    JoinOptions options = on_own_host(rank);
    options.silence_ms = 600;
    return options;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // beats have begun
  job[1].signal(SIGSTOP);
  for (int rank : {0, 2}) CHECK(job[static_cast<size_t>(rank)].line().starts_with("lost 1 "));
}

}  // namespace
}  // namespace tutti::bootstrap
