#include "transports/common/dialer.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace tutti {
namespace {

constexpr int kSliceMs = 50;
constexpr int kRetryMs = 10;   // while the peer's queue of connections is full
constexpr int kGraceMs = 20;   // for a preferred address, once another one is proven

class Attempt {
 public:
  Attempt(const LinkIdentity& self, int peer, const DialTarget& candidate, const std::function<Status(int)>& admit)
      : self_(self), peer_(peer), candidate_(candidate), admit_(admit) {}

  bool running() const { return failure_.ok() && !proven_; }
  bool proven() const { return proven_; }
  std::string report() const {
    return fmt::format("{}: {}", candidate_.text, failure_.ok() ? "no answer in time" : failure_.message());
  }

  // What to wait for; none while there is nothing to connect yet.
  pollfd event() const {
    return {.fd = fd_.get(), .events = static_cast<short>(handshake_ ? POLLIN : POLLOUT), .revents = 0};
  }
  // Goes on as far as possible without blocking. `ready`: event() has happened.
  void advance(bool ready) {
    auto stepped = step(ready);
    if (!stepped.ok()) {
      failure_ = std::move(stepped).status();
      fd_.reset();
    } else {
      proven_ = *stepped;
    }
  }
  Result<Fd> choose() {
    TUTTI_TRY(handshake_->choose());
    return std::move(fd_);
  }

 private:
  // True once proven.
  Result<bool> step(bool ready) {
    if (!fd_) return start();
    if (!ready) return false;
    if (!handshake_) TUTTI_TRY(finish_connect());
    return TUTTI_TRY(handshake_->advance()) == Handshake::Progress::kProven;
  }

  Result<bool> start() {
    Fd fd(::socket(candidate_.address.storage.ss_family, candidate_.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return system_error(errno, "cannot make a socket");
    if (candidate_.source.size_bytes > 0 && ::bind(fd.get(), candidate_.source.get(), candidate_.source.size_bytes) != 0) {
      return system_error(errno, "cannot bind to the interface");
    }
    if (::connect(fd.get(), candidate_.address.get(), candidate_.address.size_bytes) != 0) {
      if (errno == EAGAIN) return false;  // a unix socket whose queue is full: again later, with a fresh socket
      if (errno != EINPROGRESS) return system_error(errno, "cannot connect");
    }
    fd_ = std::move(fd);
    return false;
  }

  Status finish_connect() {
    int failure = 0;
    socklen_t size = sizeof failure;
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0) failure = errno;
    if (failure != 0) return system_error(failure, "cannot connect");
    TUTTI_TRY(admit_(fd_.get()));
    handshake_ = std::make_unique<Handshake>(self_, Handshake::Role::kInitiator, peer_, fd_.get());
    return {};
  }

  const LinkIdentity& self_;
  const int peer_;
  const DialTarget& candidate_;
  const std::function<Status(int)>& admit_;
  Fd fd_;
  std::unique_ptr<Handshake> handshake_;
  Status failure_;
  bool proven_ = false;
};

// The attempt to keep, if that can be said already: the first proven one, once no better one is running or its grace is over.
Attempt* winner(std::vector<Attempt>& attempts, const Deadline& grace) {
  for (Attempt& attempt : attempts) {
    if (attempt.proven()) return &attempt;
    if (attempt.running() && !grace.passed()) return nullptr;
  }
  return nullptr;
}

Status no_answer(const std::vector<Attempt>& attempts, Code code) {
  std::string reports;
  for (const Attempt& attempt : attempts) reports += (reports.empty() ? "" : "; ") + attempt.report();
  return error(code, "no address of the peer leads to it ({})", reports.empty() ? "it has none that fits" : reports);
}

}  // namespace

Result<Fd> dial(const LinkIdentity& self, int peer, std::span<const DialTarget> candidates,
                const std::function<Status(int fd)>& admit, Deadline deadline, const std::function<bool()>& give_up) {
  std::vector<Attempt> attempts;
  attempts.reserve(candidates.size());
  for (const DialTarget& candidate : candidates) attempts.emplace_back(self, peer, candidate, admit).advance(false);
  Deadline grace = Deadline::never();
  while (true) {
    bool any_proven = std::any_of(attempts.begin(), attempts.end(), [](auto& a) { return a.proven(); });
    if (any_proven && grace.at() == Clock::time_point::max()) grace = Deadline::after_ms(kGraceMs);
    if (Attempt* chosen = winner(attempts, grace)) return chosen->choose();
    bool any_running = std::any_of(attempts.begin(), attempts.end(), [](auto& a) { return a.running(); });
    if (!any_running) return no_answer(attempts, Code::kRemote);
    if (give_up()) return error(Code::kAborted, "aborted while connecting");
    if (deadline.passed()) return no_answer(attempts, Code::kTimeout);

    std::vector<pollfd> events;
    bool retry = false;
    for (const Attempt& attempt : attempts) {
      events.push_back(attempt.running() ? attempt.event() : pollfd{.fd = -1, .events = 0, .revents = 0});
      retry = retry || (attempt.running() && events.back().fd < 0);
    }
    int wait_ms = std::min(deadline.left_ms(retry ? kRetryMs : kSliceMs), grace.left_ms(kSliceMs));
    if (::poll(events.data(), events.size(), wait_ms) < 0 && errno != EINTR) return system_error(errno, "cannot wait");
    for (size_t i = 0; i < attempts.size(); ++i) {
      if (attempts[i].running()) attempts[i].advance(events[i].revents != 0);
    }
  }
}

}  // namespace tutti
