#include "transports/common/acceptor.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"

namespace tutti {
namespace {

constexpr int kSliceMs = 50;
constexpr int64_t kHandshakeMs = 5000;   // for a connection to prove itself
constexpr size_t kMostPending = 256;     // the oldest gives way to the newest

bool has_ended(int socket) {
  std::byte next;
  return ::recv(socket, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT) == 0;
}

}  // namespace

Result<Fd> Acceptor::take(int peer, Deadline deadline, const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (auto found = proven_.find(peer); found != proven_.end()) {
      Fd fd = std::move(found->second);
      proven_.erase(found);
      if (!has_ended(fd.get())) return fd;
      continue;  // of an earlier attempt that the peer has given up since
    }
    if (give_up()) return error(Code::kAborted, "aborted while waiting for the peer");
    if (deadline.passed()) return timeout();
    if (driving_) {
      changed_.wait_for(lock, std::chrono::milliseconds(deadline.left_ms(kSliceMs)));
      continue;
    }
    driving_ = true;
    lock.unlock();
    Status driven = drive(deadline);
    lock.lock();
    driving_ = false;
    changed_.notify_all();
    if (!driven.ok()) return driven;
  }
}

Status Acceptor::drive(Deadline deadline) {
  std::vector<pollfd> events;
  for (const Pending& pending : pending_) events.push_back({.fd = pending.fd.get(), .events = POLLIN, .revents = 0});
  size_t first_listener = events.size();
  for (const Fd& listener : listeners_) events.push_back({.fd = listener.get(), .events = POLLIN, .revents = 0});
  if (::poll(events.data(), events.size(), deadline.left_ms(kSliceMs)) < 0 && errno != EINTR) {
    return system_error(errno, "cannot wait for connections");
  }
  advance(first_listener, events);
  for (size_t i = first_listener; i < events.size(); ++i) {
    if (events[i].revents != 0) TUTTI_TRY(accept_from(events[i].fd));
  }
  return {};
}

void Acceptor::advance(size_t count, const std::vector<pollfd>& events) {
  for (size_t i = 0; i < count; ++i) {
    Pending& pending = pending_[i];
    if (events[i].revents == 0) {
      if (!pending.deadline.passed()) continue;
      turn_away("it said nothing valid in time");
      pending.fd.reset();
      continue;
    }
    auto progress = pending.handshake->advance();
    if (!progress.ok()) {
      turn_away(progress.status().message());
      pending.fd.reset();
    } else if (*progress == Handshake::Progress::kDone) {
      std::lock_guard lock(mutex_);
      proven_[pending.handshake->peer()] = std::move(pending.fd);
    }
  }
  std::erase_if(pending_, [](const Pending& pending) { return !pending.fd; });
}

Status Acceptor::accept_from(int listener) {
  for (int i = 0; i < 64; ++i) {
    Fd fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      if (errno == EMFILE || errno == ENFILE) return system_error(errno, "cannot accept a connection (see ulimit -n)");
      return {};  // EAGAIN, or a connection that has already gone
    }
    if (Status admitted = admit_(fd.get()); !admitted.ok()) {
      turn_away(admitted.message());
      continue;
    }
    if (pending_.size() >= kMostPending) pending_.erase(pending_.begin());
    auto handshake = std::make_unique<Handshake>(self_, Handshake::Role::kResponder, -1, fd.get());
    pending_.push_back({std::move(fd), std::move(handshake), Deadline::after_ms(kHandshakeMs)});
  }
  return {};
}

void Acceptor::turn_away(std::string_view why) {
  log_debug("turned a connection away: {}", why);
  std::lock_guard lock(mutex_);
  ++turned_away_;
  last_reason_ = why;
}

Status Acceptor::timeout() const {
  std::string meanwhile = turned_away_ == 0 ? std::string()
                                            : fmt::format("; {} connection(s) were turned away, the last because: {}",
                                                          turned_away_, last_reason_);
  return error(Code::kTimeout, "the peer did not connect in time{}", meanwhile);
}

}  // namespace tutti
