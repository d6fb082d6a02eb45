#include "transports/common/acceptor.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"

namespace tutti {
namespace {

constexpr int64_t kHandshakeMs = 5000;   // for the next word of a connection that proves itself
constexpr int kMostStrangers = 256;      // have not proven who they are; the oldest gives way to the newest
constexpr int kMostAtOnce = 64;          // accepted in one step

// As recv(2): 0 is the end, negative is nothing yet.
ssize_t peek(int socket) {
  std::byte next;
  return ::recv(socket, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT);
}

}  // namespace

Fd Acceptor::take(int peer) {
  auto found = proven_.find(peer);
  if (found == proven_.end()) return Fd();
  Fd fd = std::move(found->second);
  proven_.erase(found);
  if (peek(fd.get()) == 0) fd.reset();  // of an earlier attempt that the peer has given up since
  return fd;
}

Result<Progress> Acceptor::advance() {
  bool moved = advance_pending();
  for (const Fd& listener : listeners_) moved = TUTTI_TRY(accept_from(listener.get())) || moved;
  return moved ? Progress::kMoved : Progress::kBlocked;
}

// True when one of them is not pending any more.
bool Acceptor::advance_pending() {
  for (Pending& pending : pending_) advance_one(pending);
  return std::erase_if(pending_, [](const Pending& pending) { return !pending.fd; }) > 0;
}

void Acceptor::advance_one(Pending& pending) {
  bool speaks = peek(pending.fd.get()) > 0;
  auto progress = pending.handshake->advance();
  if (!progress.ok()) {
    turn_away(progress.status().message());
    pending.fd.reset();
  } else if (*progress == Handshake::Reached::kDone) {
    proven_[pending.handshake->peer()] = std::move(pending.fd);
  } else if (speaks) {
    pending.deadline = Deadline::after_ms(kHandshakeMs);  // this rank may have been the slow one
  } else if (pending.deadline.passed()) {
    turn_away("it said nothing valid in time");
    pending.fd.reset();
  }
}

// If it is a rank's, that dials again; but not once it has chosen this connection. So what it has said is read first,
// and who has the token, of whom there are few, stays.
void Acceptor::bound_strangers() {
  auto is_stranger = [](const Pending& pending) { return !pending.handshake->has_proof(); };
  if (std::count_if(pending_.begin(), pending_.end(), is_stranger) < kMostStrangers) return;
  auto oldest = std::find_if(pending_.begin(), pending_.end(), is_stranger);
  advance_one(*oldest);
  if (oldest->fd && !is_stranger(*oldest)) return;
  if (oldest->fd) turn_away("too many others came after it");
  pending_.erase(oldest);
}

Result<bool> Acceptor::accept_from(int listener) {
  bool came = false;
  for (int i = 0; i < kMostAtOnce; ++i) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE) return system_error(errno, "cannot accept a connection (see ulimit -n)");
      return came;  // EAGAIN, or a connection that has already gone
    }
    came = true;
    if (Status admitted = admit_(fd.get()); !admitted.ok()) {
      turn_away(admitted.message());
      continue;
    }
    bound_strangers();
    auto handshake = std::make_unique<Handshake>(self_, Handshake::Role::kResponder, -1, fd.get());
    pending_.push_back({std::move(fd), std::move(handshake), Deadline::after_ms(kHandshakeMs)});
  }
  return came;
}

void Acceptor::watch(WaitSet& waits) const {
  for (const Fd& listener : listeners_) waits.add(listener.get(), POLLIN);
  for (const Pending& pending : pending_) {
    waits.add(pending.fd.get(), POLLIN);
    waits.wake_within(pending.deadline.left_ms());
  }
}

void Acceptor::turn_away(std::string_view why) {
  log_debug("turned a connection away: {}", why);
  ++turned_away_;
  last_reason_ = why;
}

std::string Acceptor::report() const {
  if (turned_away_ == 0) return {};
  return fmt::format("{} connection(s) were turned away, the last because: {}", turned_away_, last_reason_);
}

}  // namespace tutti
