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
  if (join_fences_across_processes()) {
    bell->doorbell->fence_for_signallers(Signallers::kProcesses);
    bell->content()->fences_for_signallers = 1;
  }
  return bell;
}

Status check_same_user(int socket) {
  ucred peer = TUTTI_TRY(credentials_of_peer(socket));
  if (peer.uid == ::geteuid()) return {};
  return error(Code::kRemote, "the process at the other end belongs to user {}, this one to user {}", peer.uid,
               ::geteuid());
}

Result<Mapping> map_checked(int fd, uint64_t size_bytes) {
  if (fd < 0) return error(Code::kRemote, "the peer announced shared memory without a descriptor");
  int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return error(Code::kRemote, "the peer's shared memory could shrink (it is no memfd sealed with F_SEAL_SHRINK)");
  }
  struct stat file {};
  if (::fstat(fd, &file) != 0) return system_error(errno, "cannot ask for the size of the peer's shared memory");
  if (size_bytes > static_cast<uint64_t>(file.st_size)) {
    return error(Code::kRemote, "the peer announced {} bytes of shared memory, but there are {}", size_bytes,
                 file.st_size);
  }
  return Mapping::create(fd, size_bytes);
}

namespace {

// Calls process_vm_readv(2) or process_vm_writev(2) until all is copied. `verb`: what it does, for its errors.
template <typename Copy>
Status copy_memory(pid_t pid, std::byte* own, size_t size, uint64_t theirs, Copy copy, std::string_view verb) {
  while (size > 0) {
    iovec local{.iov_base = own, .iov_len = size};
    iovec remote{.iov_base = reinterpret_cast<void*>(theirs), .iov_len = size};
    ssize_t copied = copy(pid, &local, 1, &remote, 1, 0);
    if (copied > 0) {
      own += copied;
      theirs += static_cast<uint64_t>(copied);
      size -= static_cast<size_t>(copied);
    } else if (copied == 0 || errno == EFAULT) {
      return error(Code::kInvalidArgument,
                   "{} bytes at address {:#x} of the peer cannot be {}: they are not its memory", size, theirs, verb);
    } else if (errno == ESRCH) {
      return error(Code::kRemote, "the peer's process {} has died", pid);
    } else if (errno != EINTR) {
      return system_error(errno, fmt::format("the memory of the peer's process {} cannot be {}", pid, verb));
    }
  }
  return {};
}

// Whoever may read another process's memory may write it, unless a filter of system calls forbids the one call: nothing
// is written, since a peer that has given up may use that memory for something else.
bool may_push(pid_t pid) { return ::process_vm_writev(pid, nullptr, 0, nullptr, 0, 0) == 0; }

}  // namespace

Status pull_memory(pid_t pid, std::span<std::byte> to, uint64_t from) {
  return copy_memory(pid, to.data(), to.size(), from, ::process_vm_readv, "read");
}

Status push_memory(pid_t pid, std::span<const std::byte> from, uint64_t to) {
  auto* own = const_cast<std::byte*>(from.data());  // iovec has no form for what is only read
  return copy_memory(pid, own, from.size(), to, ::process_vm_writev, "written");
}

Result<Progress> Meeting::advance() {
  if (stage_ == Stage::kStart) {
    TUTTI_TRY(send_end());
    stage_ = Stage::kEnd;
  }
  TUTTI_TRY(channel_->flush());
  while (stage_ != Stage::kDone) {
    std::optional<ShmMessage> message = TUTTI_TRY(channel_->receive());
    if (!message) return Progress::kBlocked;
    if (stage_ == Stage::kEnd) {
      TUTTI_TRY(take_end(std::move(*message)));
      stage_ = Stage::kMet;
    } else {
      TUTTI_TRY(take_met(*message));
      stage_ = Stage::kDone;
    }
  }
  return Progress::kDone;
}

Status Meeting::send_end() {
  peer_.pid = TUTTI_TRY(credentials_of_peer(channel_->fd())).pid;
  fill_random(own_.pattern);
  own_.pattern_at = reinterpret_cast<uint64_t>(own_.pattern.data());
  const int fds[] = {mine_.page_fd.get(), mine_.doorbell->bell().eventfd};
  return channel_->send(encode(own_), fds);
}

Status Meeting::take_end(ShmMessage message) {
  ShmEnd theirs = TUTTI_TRY(parse_shm_end(message.view()));
  if (!message.fds[1]) return error(Code::kRemote, "the peer sent no doorbell");
  peer_.page = TUTTI_TRY(map_checked(message.fds[0].get(), kBellPageBytes));
  peer_.eventfd = std::move(message.fds[1]);

  ShmPattern pulled{};
  could_pull_ = pull_memory(peer_.pid, pulled, theirs.pattern_at).ok() && pulled == theirs.pattern;
  could_pull_ = could_pull_ && may_push(peer_.pid);
  auto* page = reinterpret_cast<BellPage*>(peer_.page.bytes().data());
  std::memcpy(page->written_by_peer, theirs.pattern.data(), kShmPatternBytes);
  return channel_->send(encode(ShmNote{.kind = ShmNote::Kind::kMet, .id = could_pull_, .size_bytes = 0}));
}

Status Meeting::take_met(const ShmMessage& message) {
  ShmNote met = TUTTI_TRY(parse_shm_note(message.view()));
  if (met.kind != ShmNote::Kind::kMet) return error(Code::kRemote, "the peer gave up while the link was being set up");
  if (std::memcmp(mine_.content()->written_by_peer, own_.pattern.data(), kShmPatternBytes) != 0) {
    return error(Code::kRemote, "shared memory does not reach the peer: the pattern it wrote did not arrive");
  }
  peer_.pullable = could_pull_ && met.id == 1;
  return {};
}

}  // namespace tutti
