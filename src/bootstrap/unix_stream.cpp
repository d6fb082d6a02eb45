#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>

#include "bootstrap/stream.h"

namespace tutti::bootstrap {
namespace {

class UnixStream final : public Stream {
 public:
  UnixStream(Fd fd, pid_t peer) : fd_(std::move(fd)), peer_(peer) {}

  Result<Moved> read(std::span<std::byte> into) override {
    Moved moved = TUTTI_TRY(receive(into));
    if (moved.bytes > 0 || moved.closed || !process_has_ended()) return moved;
    // Before its end, but after the first look, it may have sent more, or closed the connection.
    moved = TUTTI_TRY(receive(into));
    if (moved.bytes > 0 || moved.closed) return moved;
    return error(Code::kRemote, "its process has ended, and a child of it holds the connection");
  }

  Result<Moved> write(ByteView from) override {
    for (;;) {
      ssize_t put = ::send(fd_.get(), from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (put >= 0) return Moved{static_cast<size_t>(put), false};
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Moved{};
      if (errno == EPIPE || errno == ECONNRESET) return Moved{0, true};
      return system_error(errno, "cannot write to a unix socket");
    }
  }

  // The peer's number is 0 where its PID namespace cannot be seen from here. Older kernels, and some sandboxes, let
  // nobody watch a process.
  void watch_process() override {
    if (peer_ <= 0 || peer_ == ::getpid()) return;
    process_ = Fd(static_cast<int>(::syscall(SYS_pidfd_open, peer_, 0)));
    is_gone_ = !process_ && errno == ESRCH;
  }
  int process_fd() const override { return process_.get(); }

  void close_writing() override { ::shutdown(fd_.get(), SHUT_WR); }
  int fd() const override { return fd_.get(); }
  bool authenticated() const override { return true; }

 private:
  Result<Moved> receive(std::span<std::byte> into) {
    for (;;) {
      ssize_t got = ::recv(fd_.get(), into.data(), into.size(), MSG_DONTWAIT);
      if (got >= 0) return Moved{static_cast<size_t>(got), got == 0};
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Moved{};
      if (errno == ECONNRESET) return Moved{0, true};
      return system_error(errno, "cannot read from a unix socket");
    }
  }

  bool process_has_ended() const {
    pollfd process{process_.get(), POLLIN, 0};
    return is_gone_ || (process_ && ::poll(&process, 1, 0) > 0);
  }

  Fd fd_;
  const pid_t peer_;
  Fd process_;            // a pidfd
  bool is_gone_ = false;  // when the watch began
};

}  // namespace

Result<std::unique_ptr<Stream>> make_unix_stream(Fd fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    return system_error(errno, "cannot read the credentials of a unix socket's peer");
  }
  if (peer.uid != geteuid()) {
    return error(Code::kInvalidUsage,
                 "process {} of user {} is at the other end of a unix socket, but this job runs as user {}: "
                 "start all ranks as one user",
                 peer.pid, peer.uid, geteuid());
  }
  return std::unique_ptr<Stream>(std::make_unique<UnixStream>(std::move(fd), peer.pid));
}

}  // namespace tutti::bootstrap
