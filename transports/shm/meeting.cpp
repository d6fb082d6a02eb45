#include "transports/shm/meeting.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transports/common/hello.h"

namespace tutti {
namespace {

Result<ucred> credentials_of_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return system_error(errno, "cannot ask who is at the other end of the unix socket");
  }
  return peer;
}

}  // namespace

Result<std::shared_ptr<ShmBell>> ShmBell::create() {
  auto bell = std::make_shared<ShmBell>();
  bell->page_fd = TUTTI_TRY(create_memfd("tutti-bell", kBellPageBytes));
  bell->page = TUTTI_TRY(Mapping::create(bell->page_fd.get(), kBellPageBytes));
  bell->doorbell = TUTTI_TRY(Doorbell::create(&bell->content()->sleeping));
  return bell;
}

Status check_same_user(int socket) {
  ucred peer = TUTTI_TRY(credentials_of_peer(socket));
  if (peer.uid == ::geteuid()) return {};
  return error(Code::kRemote, "the process at the other end belongs to user {}, this one to user {}", peer.uid, ::geteuid());
}

Result<Mapping> map_checked(int fd, uint64_t size_bytes) {
  struct stat file {};
  if (fd < 0 || ::fstat(fd, &file) != 0) return error(Code::kRemote, "the peer announced shared memory without a descriptor");
  int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return error(Code::kRemote, "the peer's shared memory could shrink (it is no memfd sealed with F_SEAL_SHRINK)");
  }
  if (size_bytes > static_cast<uint64_t>(file.st_size)) {
    return error(Code::kRemote, "the peer announced {} bytes of shared memory, but there are {}", size_bytes, file.st_size);
  }
  return Mapping::create(fd, size_bytes);
}

Status pull_memory(pid_t pid, std::span<std::byte> to, uint64_t from) {
  while (!to.empty()) {
    iovec local{.iov_base = to.data(), .iov_len = to.size()};
    iovec remote{.iov_base = reinterpret_cast<void*>(from), .iov_len = to.size()};
    ssize_t got = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got > 0) {
      to = to.subspan(static_cast<size_t>(got));
      from += static_cast<uint64_t>(got);
    } else if (got == 0 || errno == EFAULT) {
      return error(Code::kInvalidArgument, "{} bytes at address {:#x} of the peer cannot be read: they are not its memory",
                   to.size(), from);
    } else if (errno == ESRCH) {
      return error(Code::kRemote, "the peer's process {} has died", pid);
    } else if (errno != EINTR) {
      return system_error(errno, fmt::format("cannot read the memory of the peer's process {}", pid));
    }
  }
  return {};
}

Result<ShmPeer> meet(SideChannel& channel, const ShmBell& mine, Deadline deadline, const std::function<bool()>& give_up) {
  ShmPeer peer;
  peer.pid = TUTTI_TRY(credentials_of_peer(channel.fd())).pid;

  // The pattern must stay in private memory until the peer has pulled it, which its kMet says.
  auto own = std::make_unique<ShmEnd>();
  fill_random(own->pattern);
  own->pattern_at = reinterpret_cast<uint64_t>(own->pattern.data());
  const int fds[] = {mine.page_fd.get(), mine.doorbell->bell().eventfd};
  TUTTI_TRY(channel.send(encode(*own), fds));

  ShmMessage message = TUTTI_TRY(channel.receive_within(deadline, give_up));
  ShmEnd theirs = TUTTI_TRY(parse_shm_end(message.view()));
  if (!message.fds[1]) return error(Code::kRemote, "the peer sent no doorbell");
  peer.page = TUTTI_TRY(map_checked(message.fds[0].get(), kBellPageBytes));
  peer.eventfd = std::move(message.fds[1]);

  ShmPattern pulled{};
  bool could_pull = pull_memory(peer.pid, pulled, theirs.pattern_at).ok() && pulled == theirs.pattern;
  auto* page = reinterpret_cast<BellPage*>(peer.page.bytes().data());
  std::memcpy(page->written_by_peer, theirs.pattern.data(), kShmPatternBytes);
  TUTTI_TRY(channel.send(encode(ShmNote{.kind = ShmNote::Kind::kMet, .id = could_pull, .size_bytes = 0})));

  message = TUTTI_TRY(channel.receive_within(deadline, give_up));
  ShmNote met = TUTTI_TRY(parse_shm_note(message.view()));
  if (met.kind != ShmNote::Kind::kMet) return error(Code::kRemote, "the peer gave up while the link was being set up");
  if (std::memcmp(mine.content()->written_by_peer, own->pattern.data(), kShmPatternBytes) != 0) {
    return error(Code::kRemote, "shared memory does not reach the peer: the pattern it wrote did not arrive");
  }
  peer.pullable = could_pull && met.id == 1;
  return peer;
}

}  // namespace tutti
