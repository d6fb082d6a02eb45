#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "keeper.h"
#include "outer_launcher.h"
#include "output.h"
#include "tool.h"

namespace tutti::tool {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::array kPassedOn = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2};
// How long processes that were sent SIGKILL may take to be gone.
constexpr milliseconds kKillLimit{10'000};
// Until then, SIGKILL again at this interval: to processes that were being started meanwhile.
constexpr milliseconds kKillAgain{20};
// This many SIGINT or SIGTERM within kImpatience end the job even if the ranks live on with them.
constexpr int kInsisting = 3;
constexpr milliseconds kImpatience{3000};

std::string describe_signal(int signal) {
  return fmt::format("signal {} ({})", signal, ::strsignal(signal));
}

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const char* core = WCOREDUMP(wait_status) ? " and left a core dump" : "";
    return fmt::format("was ended by {}{}", describe_signal(WTERMSIG(wait_status)), core);
  }
  return fmt::format("exited with status {}", WEXITSTATUS(wait_status));
}

int shell_status(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// Blocks the signals that are to be passed on, so that they arrive through the descriptor that is returned. Those that
// this process was told to ignore (nohup, background jobs of plain shells) stay ignored, here and in the ranks.
Fd take_signals() {
  sigset_t taken;
  sigemptyset(&taken);
  for (int signal : kPassedOn) {
    struct sigaction current;
    if (::sigaction(signal, nullptr, &current) == 0 && current.sa_handler != SIG_IGN) sigaddset(&taken, signal);
  }
  Fd signals(::signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  sigaddset(&taken, SIGPIPE);
  sigaddset(&taken, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &taken, nullptr);
  return signals;
}

void allow_open_files(const Job& job, rlimit limit) {
  rlim_t needed = 4 * static_cast<rlim_t>(job.ranks) + 64;
  if (limit.rlim_cur >= needed) return;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < needed) {
    fail(1, "{} ranks need {} open files, and the hard limit is {}; raise it (`ulimit -Hn`) or start fewer ranks",
         job.ranks, needed, limit.rlim_max);
  }
  limit.rlim_cur = needed;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    fail(1, "cannot raise the limit of open files: {}", std::strerror(errno));
  }
}

class Launcher {
 public:
  explicit Launcher(const Job& job) : job_(job) {}

  int run() {
    start();
    while (!keeper_gone_) step();
    control_.reset();
    ::waitpid(keeper_, nullptr, 0);
    bool clean = kill_descendants(kKillLimit.count());
    for (RankStream& stream : streams_) {
      stream.drain();
      stream.close();
    }
    if (!clean) say("some processes of the job could not be ended; `ps` shows them below this process");
    output_.write_all();
    note_lost_output(output_);
    error_.write_all();
    return status_.value_or(clean ? 0 : 1);
  }

 private:
  // ---- Start

  void start() {
    tell_of_other_jobs();
    Inherited inherited = current_state();
    allow_open_files(job_, inherited.open_files);
    std::vector<RankOutput> outputs = open_pipes();
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail_for_system("make a socket pair");
    control_ = Fd(ends[0]);
    Fd keeper_end(ends[1]);
    signals_ = take_signals();
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);

    // The keeper comes before the meeting point: that has threads, and a process with threads must not fork and go on.
    keeper_ = ::fork();
    if (keeper_ < 0) fail_for_system("start a process");
    if (keeper_ == 0) {
      control_.reset();
      signals_.reset();
      streams_.clear();
      run_keeper(job_, inherited, std::move(keeper_end), std::move(outputs));
    }
    Order order{.kind = Order::kStart};
    require(tutti_get_unique_id(&order.id));  // on failure the keeper sees the socket close, and goes
    give(order);
    if (job_.timeout_ms > 0) timeout_ = Clock::now() + milliseconds(job_.timeout_ms);
  }

  // Several launchers make several jobs, which somebody may have meant to be one.
  void tell_of_other_jobs() {
    auto outer = outer_launcher(own_environment());
    if (!outer || !outer->first || outer->processes == "1") return;
    say(fmt::format("{} started this {} times: there are {} jobs of {} ranks that know nothing of each other; for one "
                    "job use one launcher only",
                    outer->name, outer->processes, outer->processes, job_.ranks));
  }

  std::vector<RankOutput> open_pipes() {
    std::vector<RankOutput> outputs(job_.ranks);
    for (int rank = 0; rank < job_.ranks; ++rank) {
      std::string tag = job_.tag_lines ? fmt::format("[{}] ", rank) : "";
      outputs[rank].standard_output = open_pipe(rank, tag, output_, nullptr);
      outputs[rank].standard_error = open_pipe(rank, tag, error_, job_.ranks_explain ? &said_ : nullptr);
    }
    return outputs;
  }

  Fd open_pipe(int rank, const std::string& tag, OutputQueue& to, SaidBefore* said) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_for_system("make a pipe");
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    streams_.emplace_back(rank, Fd(ends[0]), tag, to, said);
    return Fd(ends[1]);
  }

  [[noreturn]] void fail_for_system(const char* what) { fail(1, "cannot {}: {}", what, std::strerror(errno)); }

  // ---- One round of the event loop

  void step() {
    watched_.clear();
    watched_.push_back({signals_.get(), POLLIN, 0});
    watched_.push_back({control_.get(), POLLIN, 0});
    for (OutputQueue* queue : {&output_, &error_}) {
      watched_.push_back({queue->empty() ? -1 : queue->fd(), POLLOUT, 0});
    }
    for (const RankStream& stream : streams_) {
      watched_.push_back({stream.to().full() ? -1 : stream.fd(), POLLIN, 0});
    }
    if (::poll(watched_.data(), watched_.size(), wait_ms()) < 0 && errno != EINTR) {
      fail_for_system("wait for the ranks");
    }
    if (watched_[0].revents) pass_signals_on();
    if (watched_[2].revents) write_some(output_);
    if (watched_[3].revents) write_some(error_);
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (watched_[i + 4].revents) streams_[i].read_some();
    }
    if (watched_[1].revents) hear_keeper();
    keep_deadlines();
  }

  int wait_ms() const {
    std::optional<Clock::time_point> next = timeout_;
    if (kill_at_ && (!next || *kill_at_ < *next)) next = kill_at_;
    if (give_up_at_) next = Clock::now() + kKillAgain;
    if (!next) return -1;
    auto left = std::chrono::ceil<milliseconds>(*next - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
  }

  // A rank whose reader is gone is to notice it as if it had written there itself.
  void write_some(OutputQueue& queue) {
    queue.write_some();
    if (!queue.broken()) return;
    note_lost_output(queue);
    for (RankStream& stream : streams_) {
      if (&stream.to() == &queue && stream.open()) stream.close();
    }
  }

  // Who reads it may go; that there is no room is told.
  void note_lost_output(const OutputQueue& queue) {
    if (!queue.broken() || queue.failure() == EPIPE || &queue == &error_) return;
    end_job(1, fmt::format("cannot write what the ranks print: {}; make room there, or write elsewhere",
                           std::strerror(queue.failure())));
  }

  void keep_deadlines() {
    auto now = Clock::now();
    if (timeout_ && now >= *timeout_) {
      timeout_.reset();
      end_job(kTimedOut, fmt::format("the job did not end within {:g} s; ending it", job_.timeout_ms / 1e3));
    }
    if (kill_at_ && now >= *kill_at_) {
      if (!give_up_at_) give_up_at_ = now + kKillLimit;
      give({.kind = Order::kKill});
    }
    if (give_up_at_ && now >= *give_up_at_) {  // the keeper does not get rid of them: this process tries in its place
      keeper_gone_ = true;
      ::kill(keeper_, SIGKILL);
    }
  }

  // ---- Signals

  void pass_signals_on() {
    signalfd_siginfo info;
    while (::read(signals_.get(), &info, sizeof info) == ssize_t{sizeof info}) {
      int signal = static_cast<int>(info.ssi_signo);
      bool from_terminal = info.ssi_code == SI_KERNEL;  // the ranks, in the same process group, got it as well
      bool to_group = signal != SIGUSR1 && signal != SIGUSR2;
      if (!from_terminal) give({.kind = to_group ? Order::kSignalGroup : Order::kSignalRanks, .signal = signal});
      if (signal == SIGTSTP) ::kill(::getpid(), SIGSTOP);
      if (signal == SIGINT || signal == SIGTERM) notice_insisting(signal);
    }
  }

  void notice_insisting(int signal) {
    auto now = Clock::now();
    if (now - first_asked_ > kImpatience) {
      first_asked_ = now;
      asked_ = 0;
    }
    if (++asked_ < kInsisting) return;
    end_job(128 + signal, fmt::format("got {} {} times; ending the job", describe_signal(signal), asked_));
  }

  // ---- The job's course

  void hear_keeper() {
    Report report;
    ssize_t size = ::recv(control_.get(), &report, sizeof report, 0);
    if (size < 0 && errno == EINTR) return;
    if (size != ssize_t{sizeof report}) {
      keeper_gone_ = true;
      end_job(1, "the job's keeper process was killed; ending the job");
      return;
    }
    switch (report.kind) {
      case Report::kStarted:
        pids_[report.rank] = report.pid;
        break;
      case Report::kStartFailed:
        end_job(1,
                fmt::format("cannot start rank {}: {}; start fewer ranks or raise the limit of processes (`ulimit -u`)",
                            report.rank, std::strerror(report.status)));
        break;
      case Report::kExecFailed:
        refuse_command(report.status);
        break;
      case Report::kExited:
        note_exit(report.rank, report.status);
        break;
      case Report::kEmpty:
        keeper_gone_ = true;
        break;
    }
  }

  void refuse_command(int error) {
    if (error == ENOENT) {
      end_job(kCommandNotFound,
              fmt::format("there is no command \"{}\"; give its path, or check PATH", job_.command[0]));
    } else {
      end_job(kCannotExecute, fmt::format("cannot execute \"{}\": {}", job_.command[0], std::strerror(error)));
    }
  }

  void note_exit(int rank, int wait_status) {
    for (int stream : {2 * rank, 2 * rank + 1}) streams_[stream].drain();
    ++exited_;
    if (shell_status(wait_status) != 0) {
      bool explained = job_.ranks_explain && WIFEXITED(wait_status) && streams_[2 * rank + 1].spoke();
      if (explained) return end_job(WEXITSTATUS(wait_status), "");
      int left = job_.ranks - exited_;
      std::string rest = left == 0   ? ""
                         : left == 1 ? "; ending the other rank"
                                     : fmt::format("; ending the other {} ranks", left);
      end_job(shell_status(wait_status),
              fmt::format("rank {} (process {}) {}{}", rank, pids_[rank], describe_end(wait_status), rest));
    } else if (exited_ == job_.ranks) {
      end_processes();  // what the ranks left behind
    }
  }

  // The first reason counts: what follows is its consequence. An empty sentence: a rank has said it.
  void end_job(int status, const std::string& sentence) {
    if (!status_) {
      status_ = status;
      if (!sentence.empty()) say(sentence);
    }
    end_processes();
  }

  void end_processes() {
    if (kill_at_) return;
    timeout_.reset();
    kill_at_ = Clock::now() + milliseconds(job_.grace_ms);
    give({.kind = Order::kSignalAll, .signal = SIGTERM});
    give({.kind = Order::kSignalAll, .signal = SIGCONT});  // a stopped process would never see the first
  }

  void say(const std::string& sentence) { error_.add(fmt::format("{}: {}\n", job_.name, sentence)); }

  void give(const Order& order) { ::send(control_.get(), &order, sizeof order, MSG_NOSIGNAL | MSG_DONTWAIT); }

  const Job& job_;
  OutputQueue output_{STDOUT_FILENO};
  OutputQueue error_{STDERR_FILENO};
  SaidBefore said_;
  std::vector<RankStream> streams_;  // rank r's output at 2r, its error at 2r + 1
  std::vector<int> pids_ = std::vector<int>(job_.ranks);
  std::vector<pollfd> watched_;
  Fd control_;
  Fd signals_;
  pid_t keeper_ = -1;
  bool keeper_gone_ = false;
  int exited_ = 0;
  std::optional<int> status_;  // decided
  std::optional<Clock::time_point> timeout_;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Clock::time_point> give_up_at_;
  Clock::time_point first_asked_{};
  int asked_ = 0;
};

}  // namespace

int run_job(const Job& job) { return Launcher(job).run(); }

}  // namespace tutti::tool
