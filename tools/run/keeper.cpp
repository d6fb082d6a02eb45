#include "keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <thread>

#include "process_tree.h"

namespace tutti::tool {
namespace {

constexpr int64_t kKillLimitMs = 60'000;

class Keeper {
 public:
  Keeper(const Job& job, const Inherited& inherited, Fd launcher, std::vector<RankOutput> outputs)
      : job_(job), inherited_(inherited), launcher_(std::move(launcher)), outputs_(std::move(outputs)) {
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    child_ended_ = Fd(::signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void run() {
    while (!launcher_gone_) {
      pollfd watched[] = {{launcher_.get(), POLLIN, 0}, {child_ended_.get(), POLLIN, 0}};
      if (::poll(watched, 2, -1) < 0 && errno != EINTR) break;
      if (watched[1].revents) {
        signalfd_siginfo ignored;
        while (::read(child_ended_.get(), &ignored, sizeof ignored) > 0) continue;
      }
      bool children_left = reap();
      if (started_ && !children_left) {
        report({.kind = Report::kEmpty});
        wait_for_launcher();
        return;
      }
      if (watched[0].revents) obey();
    }
    kill_descendants(kKillLimitMs);
  }

 private:
  void obey() {
    Order order;
    ssize_t size = ::recv(launcher_.get(), &order, sizeof order, 0);
    if (size < 0 && errno == EINTR) return;
    if (size != ssize_t{sizeof order}) {
      launcher_gone_ = true;
      return;
    }
    switch (order.kind) {
      case Order::kStart: return start(order.id);
      case Order::kSignalRanks:
        for (const auto& [pid, rank] : ranks_) ::kill(pid, order.signal);
        return;
      case Order::kSignalGroup:
      case Order::kSignalAll:
        for (const Process& process : descendants()) {
          bool reached = order.kind == Order::kSignalAll || process.group == inherited_.process_group;
          if (reached) ::kill(process.pid, order.signal);
        }
        return;
      case Order::kKill:
        for (const Process& process : descendants()) ::kill(process.pid, SIGKILL);
        return;
    }
  }

  // Leaving with unread orders would reset the connection, and the launcher lose the last reports.
  void wait_for_launcher() {
    Order order;
    ssize_t size;
    while ((size = ::recv(launcher_.get(), &order, sizeof order, 0)) > 0 || (size < 0 && errno == EINTR)) continue;
  }

  void start(const tutti_unique_id_t& id) {
    pid_t self = ::getpid();
    for (int rank = 0; rank < job_.ranks; ++rank) {
      pid_t pid = ::fork();
      if (pid == 0) {
        int error = become_rank(job_, inherited_, id, rank, outputs_[rank], self);
        report({Report::kExecFailed, rank, ::getpid(), error});
        ::_exit(127);
      }
      if (pid < 0) {
        report({Report::kStartFailed, rank, 0, errno});
        break;
      }
      ranks_[pid] = rank;
      report({Report::kStarted, rank, pid, 0});
    }
    outputs_.clear();  // so that the launcher sees the end of a stream when its last writer is gone
    started_ = true;
    // A child may have ended, and its signal been read, before started_ was set.
    if (!reap()) ::kill(self, SIGCHLD);
  }

  // Collects everyone who has ended and reports the ranks among them. Several may have ended since the last look, in no
  // known order: those that a signal ended come first, since the others' failures are more often the consequence.
  bool reap() {
    std::vector<Report> ended;
    int status = 0;
    pid_t pid;
    while ((pid = ::waitpid(-1, &status, WNOHANG)) > 0) {
      auto rank = ranks_.find(pid);
      if (rank == ranks_.end()) continue;  // an adopted grandchild
      ended.push_back({Report::kExited, rank->second, pid, status});
      ranks_.erase(rank);
    }
    std::stable_partition(ended.begin(), ended.end(), [](const Report& r) { return WIFSIGNALED(r.status); });
    for (const Report& one : ended) report(one);
    return pid == 0;
  }

  void report(const Report& message) {
    if (::send(launcher_.get(), &message, sizeof message, MSG_NOSIGNAL) < 0) launcher_gone_ = true;
  }

  const Job& job_;
  const Inherited& inherited_;
  Fd launcher_;
  Fd child_ended_;
  std::vector<RankOutput> outputs_;
  std::map<pid_t, int> ranks_;  // those that live
  bool started_ = false;
  bool launcher_gone_ = false;
};

// Standard streams would keep the launcher's readers waiting after the launcher itself is gone.
void let_go_of_standard_streams() {
  int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nothing < 0) return;
  ::dup2(nothing, STDOUT_FILENO);
  ::dup2(nothing, STDERR_FILENO);
}

}  // namespace

bool kill_descendants(int64_t limit_ms) {
  using Clock = std::chrono::steady_clock;
  auto deadline = Clock::now() + std::chrono::milliseconds(limit_ms);
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(100))) {
    pid_t pid;
    while ((pid = ::waitpid(-1, nullptr, WNOHANG)) > 0) continue;
    if (pid < 0 && errno == ECHILD) return true;
    if (Clock::now() >= deadline) return false;
    for (const Process& process : descendants()) ::kill(process.pid, SIGKILL);
    std::this_thread::sleep_for(pause);
  }
}

void run_keeper(const Job& job, const Inherited& inherited, Fd launcher, std::vector<RankOutput> outputs) {
  ::setpgid(0, 0);  // out of reach of the terminal's signals
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_NAME, "tutti-keeper");
  let_go_of_standard_streams();
  Keeper(job, inherited, std::move(launcher), std::move(outputs)).run();
  ::_exit(0);
}

}  // namespace tutti::tool
