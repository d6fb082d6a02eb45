#include <sys/socket.h>

#include <cerrno>

#include "bootstrap/stream.h"

namespace tutti::bootstrap {
namespace {

class UnixStream final : public Stream {
 public:
  explicit UnixStream(Fd fd) : fd_(std::move(fd)) {}

  Result<Moved> read(std::span<std::byte> into) override {
    for (;;) {
      ssize_t got = ::recv(fd_.get(), into.data(), into.size(), MSG_DONTWAIT);
      if (got >= 0) return Moved{static_cast<size_t>(got), got == 0};
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Moved{};
      if (errno == ECONNRESET) return Moved{0, true};
      return system_error(errno, "cannot read from a unix socket");
    }
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

  void close_writing() override { ::shutdown(fd_.get(), SHUT_WR); }
  int fd() const override { return fd_.get(); }
  bool authenticated() const override { return true; }

 private:
  Fd fd_;
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
  return std::unique_ptr<Stream>(std::make_unique<UnixStream>(std::move(fd)));
}

}  // namespace tutti::bootstrap
