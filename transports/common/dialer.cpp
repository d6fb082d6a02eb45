#include "transports/common/dialer.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace tutti {
namespace {

// Before an address is dialled again: while the peer's queue of connections is full, and after the first connection
// that ended during its handshake. Each further one doubles it.
constexpr int kRetryMs = 10;
constexpr int kLongestRetryMs = 640;
// For a preferred address, once another one is proven: where nobody has answered yet, and where somebody has, who may
// only be busy. What comes later may be a detour, over a device that is to be done without, say.
constexpr int kGraceMs = 20;
constexpr int kConnectedGraceMs = 1000;

bool is_writable(int socket) {
  pollfd event{.fd = socket, .events = POLLOUT, .revents = 0};
  return ::poll(&event, 1, 0) > 0;
}

}  // namespace

// One address, from the first packet to the proof.
class Dialer::Attempt {
 public:
  Attempt(const LinkIdentity& self, int peer, const DialTarget& candidate, const Admit& admit)
      : self_(self), peer_(peer), candidate_(candidate), admit_(admit) {}

  bool running() const { return failure_.ok() && !proven_; }
  bool proven() const { return proven_; }
  // Whether somebody is at the other end.
  bool connected() const { return handshake_ != nullptr; }
  // Connections that ended during the handshake.
  int ended() const { return ended_; }
  std::string report() const {
    std::string seen;
    if (ended_ > 0) seen = fmt::format("the peer closed the connection during the handshake {} time(s)", ended_);
    if (!failure_.ok()) seen += fmt::format("{}{}", seen.empty() ? "" : ", then ", failure_.message());
    return fmt::format("{}: {}", candidate_.text, seen.empty() ? "no answer" : seen);
  }

  void watch(WaitSet& waits) const {
    if (!fd_) return waits.wake_within(next_.left_ms());
    waits.add(fd_.get(), handshake_ ? POLLIN : POLLOUT);
  }

  // Goes on as far as possible. True when watch() then adds something else.
  bool advance() {
    bool had_fd = static_cast<bool>(fd_), was_connected = connected();
    auto stepped = step();
    if (stepped.ok()) {
      proven_ = *stepped;
    } else {
      give_up(std::move(stepped).status());
    }
    return !running() || had_fd != static_cast<bool>(fd_) || was_connected != connected();
  }

  // None when the peer has gone since it was proven.
  Fd choose() {
    if (Status chosen = handshake_->choose(); !chosen.ok()) give_up(std::move(chosen));
    return std::move(fd_);
  }

 private:
  // The connection; and the address, unless another connection to it may get through.
  void give_up(Status why) {
    if (handshake_ != nullptr && handshake_->ended()) {
      next_ = Deadline::after_ms(std::min(kRetryMs << std::min(ended_, 10), kLongestRetryMs));
      ++ended_;
    } else {
      failure_ = std::move(why);
    }
    proven_ = false;
    handshake_.reset();
    fd_.reset();
  }

  // True once proven.
  Result<bool> step() {
    if (!fd_ && (!next_.passed() || !TUTTI_TRY(start()))) return false;
    if (!handshake_) {
      if (!is_writable(fd_.get())) return false;
      TUTTI_TRY(finish_connect());
    }
    return TUTTI_TRY(handshake_->advance()) == Handshake::Reached::kProven;
  }

  // False: not now.
  Result<bool> start() {
    Fd fd(::socket(candidate_.address.storage.ss_family, candidate_.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return system_error(errno, "cannot make a socket");
    if (candidate_.source.size_bytes > 0 &&
        ::bind(fd.get(), candidate_.source.get(), candidate_.source.size_bytes) != 0) {
      return system_error(errno, "cannot bind to the interface");
    }
    if (::connect(fd.get(), candidate_.address.get(), candidate_.address.size_bytes) != 0) {
      if (errno == EAGAIN) {  // a unix socket whose queue is full: again later, with a fresh socket
        next_ = Deadline::after_ms(kRetryMs);
        return false;
      }
      if (errno != EINPROGRESS) return system_error(errno, "cannot connect");
    }
    fd_ = std::move(fd);
    return true;
  }

  Status finish_connect() {
    int failure = 0;
    socklen_t size = sizeof failure;
    if (::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &failure, &size) != 0) failure = errno;
    // Reset: it was connected, which is over already. The handshake finds that out.
    if (failure != 0 && failure != ECONNRESET) return system_error(failure, "cannot connect");
    TUTTI_TRY(admit_(fd_.get()));
    handshake_ = std::make_unique<Handshake>(self_, Handshake::Role::kInitiator, peer_, fd_.get());
    return {};
  }

  const LinkIdentity& self_;
  const int peer_;
  const DialTarget candidate_;
  const Admit admit_;
  Fd fd_;
  std::unique_ptr<Handshake> handshake_;
  Deadline next_ = Deadline::after_ms(0);  // when there is no connection: for the next one
  int ended_ = 0;
  Status failure_;
  bool proven_ = false;
};

Dialer::Dialer(const LinkIdentity& self, int peer, const std::vector<DialTarget>& candidates, const Admit& admit) {
  for (const DialTarget& candidate : candidates) {
    attempts_.push_back(std::make_unique<Attempt>(self, peer, candidate, admit));
  }
}

Dialer::~Dialer() = default;

Result<Progress> Dialer::advance() {
  bool moved = false;
  for (auto& attempt : attempts_) {
    if (attempt->running()) moved = attempt->advance() || moved;
  }
  bool any_proven = std::any_of(attempts_.begin(), attempts_.end(), [](auto& attempt) { return attempt->proven(); });
  if (any_proven && !grace_began_) begin_grace();
  while (Attempt* chosen = winner()) {
    connection_ = chosen->choose();
    if (connection_) return Progress::kDone;
    grace_began_ = false;  // it was for that one
    moved = true;
  }
  bool any_running = std::any_of(attempts_.begin(), attempts_.end(), [](auto& attempt) { return attempt->running(); });
  if (!any_running) {
    return error(Code::kRemote, "no address of the peer leads to it ({})",
                 attempts_.empty() ? "it has none that fits" : report());
  }
  return moved ? Progress::kMoved : Progress::kBlocked;
}

// The first proven one, once no better one is running, or its grace is over or forfeited: its connections end.
Dialer::Attempt* Dialer::winner() const {
  for (auto& attempt : attempts_) {
    if (attempt->proven()) return attempt.get();
    if (attempt->running() && attempt->ended() == 0 && !grace_of(*attempt).passed()) return nullptr;
  }
  return nullptr;
}

void Dialer::begin_grace() {
  grace_began_ = true;
  grace_ = Deadline::after_ms(kGraceMs);
  connected_grace_ = Deadline::after_ms(kConnectedGraceMs);
}

// How long those that are proven wait for it.
Deadline Dialer::grace_of(const Attempt& attempt) const {
  if (!grace_began_) return Deadline::never();
  return attempt.connected() ? connected_grace_ : grace_;
}

void Dialer::watch(WaitSet& waits) const {
  for (auto& attempt : attempts_) {
    if (!attempt->running()) continue;
    attempt->watch(waits);
    if (Deadline grace = grace_of(*attempt); !grace.passed()) waits.wake_within(grace.left_ms());
  }
}

std::string Dialer::report() const {
  std::string reports;
  for (auto& attempt : attempts_) {
    if (attempt->running() && attempt->connected() && attempt->ended() == 0) return {};
    reports += (reports.empty() ? "" : "; ") + attempt->report();
  }
  return reports;
}

}  // namespace tutti
