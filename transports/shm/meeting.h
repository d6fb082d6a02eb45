// What two proven ends of a shm link do before they are a link: exchange doorbells, write a pattern into each other's
// mapped memory, try to read one from each other's private memory and whether they may write there, and tell each other
// how that went.
#pragma once

#include <sys/types.h>

#include <memory>

#include "base/progress.h"
#include "transports/common/doorbell.h"
#include "transports/common/mapped.h"
#include "transports/shm/side_channel.h"

namespace tutti {

// The first bytes of the memfd behind a doorbell; one per end of a link.
struct BellPage {
  alignas(64) uint32_t sleeping = 0;
  uint32_t fences_for_signallers = 0;  // 1: whoever sleeps here does
  AccessWords access;
  alignas(64) std::byte written_by_peer[kShmPatternBytes] = {};
};
inline constexpr size_t kBellPageBytes = 4096;

// This end's doorbell with the page it lives in. Owned by the Link and the rank's BellRow.
struct ShmBell {
  Fd page_fd;
  Mapping page;
  std::unique_ptr<Doorbell> doorbell;

  static Result<std::shared_ptr<ShmBell>> create();
  BellPage* content() const { return reinterpret_cast<BellPage*>(page.bytes().data()); }
};

// The peer's end.
struct ShmPeer {
  Mapping page;
  Fd eventfd;
  pid_t pid = 0;
  bool pullable = false;     // each end has read the other's private memory, and may write it

  BellPage* content() const { return reinterpret_cast<BellPage*>(page.bytes().data()); }
  // Known once the two have met.
  Bell bell() const {
    bool fences = std::atomic_ref(content()->fences_for_signallers).load(std::memory_order_acquire) == 1;
    return {&content()->sleeping, eventfd.get(), fences && join_fences_across_processes()};
  }
};

// Refuses a socket whose other end is another user's.
Status check_same_user(int socket);

class Meeting {
 public:
  // `mine` is borrowed.
  Meeting(Fd socket, const ShmBell& mine)
      : mine_(mine), channel_(std::make_unique<SideChannel>(std::move(socket))) {}

  // As far as it gets without blocking; kDone: both ends have proven themselves.
  Result<Progress> advance();
  // What to wait for until advance() can do more.
  void watch(WaitSet& waits) const { channel_->watch(waits); }
  // Once done.
  ShmPeer take_peer() { return std::move(peer_); }
  std::unique_ptr<SideChannel> take_channel() { return std::move(channel_); }

 private:
  enum class Stage : uint8_t { kStart, kEnd, kMet, kDone };
  Status send_end();
  Status take_end(ShmMessage message);
  Status take_met(const ShmMessage& message);

  const ShmBell& mine_;
  std::unique_ptr<SideChannel> channel_;
  Stage stage_ = Stage::kStart;
  ShmEnd own_;  // its pattern stays in private memory until the peer has pulled it, which the peer's kMet says
  ShmPeer peer_;
  bool could_pull_ = false;
};

// Maps the peer's memfd. It must be sealed against shrinking and at least `size_bytes` long, so
// that touching it is safe.
Result<Mapping> map_checked(int fd, uint64_t size_bytes);

// Reads the memory of process `pid` at `from`; as process_vm_readv(2), but all of `to` or an error.
Status pull_memory(pid_t pid, std::span<std::byte> to, uint64_t from);
// Writes it at `to`; as process_vm_writev(2), but all of `from` or an error.
Status push_memory(pid_t pid, std::span<const std::byte> from, uint64_t to);

}  // namespace tutti
