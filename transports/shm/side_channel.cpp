#include "transports/shm/side_channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tutti {
namespace {

constexpr int kRetryMs = 5;

struct alignas(cmsghdr) ControlSpace {
  char bytes[CMSG_SPACE(sizeof(int) * kMostFds)] = {};
};

}  // namespace

Status SideChannel::send(std::span<const std::byte> message, std::span<const int> fds) {
  TUTTI_TRY(flush());
  if (queue_.empty() && TUTTI_TRY(send_now(message, fds))) return {};
  Queued queued{.bytes = Blob(message.begin(), message.end()), .fds = {}, .fd_count = fds.size()};
  for (size_t i = 0; i < fds.size(); ++i) {
    queued.fds[i] = Fd(::fcntl(fds[i], F_DUPFD_CLOEXEC, 0));
    if (!queued.fds[i]) return system_error(errno, "cannot duplicate a descriptor (see ulimit -n)");
  }
  queue_.push_back(std::move(queued));
  return {};
}

Status SideChannel::flush() {
  while (!queue_.empty()) {
    const Queued& next = queue_.front();
    std::array<int, kMostFds> fds{};
    for (size_t i = 0; i < next.fd_count; ++i) fds[i] = next.fds[i].get();
    if (!TUTTI_TRY(send_now(next.bytes, std::span(fds).first(next.fd_count)))) return {};
    queue_.pop_front();
  }
  return {};
}

// A socket that takes no more descriptors is writable all the same, so only time tells when to try again.
void SideChannel::watch(WaitSet& waits) const {
  waits.add(socket_.get(), POLLIN);
  if (!queue_.empty()) waits.wake_within(kRetryMs);
}

Result<bool> SideChannel::send_now(std::span<const std::byte> message, std::span<const int> fds) {
  TUTTI_CHECK(fds.size() <= kMostFds);
  iovec part{.iov_base = const_cast<std::byte*>(message.data()), .iov_len = message.size()};
  ControlSpace control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(rights), fds.data(), sizeof(int) * fds.size());
  }
  while (::sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    // ETOOMANYREFS: too many descriptors are in flight; the peer takes some out.
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == ETOOMANYREFS) return false;
    // The reason why the peer left may still wait to be received: that is where it is reported.
    if (errno == EPIPE || errno == ECONNRESET) return true;
    if (errno != EINTR) return system_error(errno, "cannot write to the unix socket");
  }
  return true;
}

Result<std::optional<ShmMessage>> SideChannel::receive() {
  ShmMessage message;
  iovec part{.iov_base = message.bytes.data(), .iov_len = message.bytes.size()};
  ControlSpace control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof control.bytes;
  ssize_t received;
  do {
    received = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::optional<ShmMessage>();
  if (received < 0 && errno != ECONNRESET) return system_error(errno, "cannot read from the unix socket");
  size_t count = 0;
  for (cmsghdr* part_of = CMSG_FIRSTHDR(&header); received > 0 && part_of != nullptr;
       part_of = CMSG_NXTHDR(&header, part_of)) {
    if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS) continue;
    size_t fds = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < fds; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part_of) + i * sizeof(int), sizeof fd);
      Fd owned(fd);
      if (count < kMostFds) message.fds[count++] = std::move(owned);
    }
  }
  if (received <= 0) return error(Code::kRemote, "the peer's process has died or closed the connection");
  if ((header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0) {
    return error(Code::kSystem,
                 "a message or its descriptors were cut (is the limit of open files, ulimit -n, too low?)");
  }
  message.size_bytes = static_cast<size_t>(received);
  return std::optional(std::move(message));
}

void SideChannel::say_and_close(const ShmNote& note) noexcept {
  auto bytes = encode(note);
  (void)::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  ::shutdown(socket_.get(), SHUT_RDWR);
}

}  // namespace tutti
