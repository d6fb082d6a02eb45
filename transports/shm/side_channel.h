// Messages and file descriptors over the unix socket of one shm link. Nothing here blocks.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <span>

#include "base/fd.h"
#include "transports/shm/wire.h"

namespace tutti {

inline constexpr size_t kMostFds = 2;

struct ShmMessage {
  std::array<std::byte, 128> bytes{};
  size_t size_bytes = 0;
  std::array<Fd, kMostFds> fds;
  std::span<const std::byte> view() const { return std::span(bytes).first(size_bytes); }
};

class SideChannel {
 public:
  explicit SideChannel(Fd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }

  // Sends now or, when the socket is full, later: in flush(). The descriptors stay the caller's.
  Status send(std::span<const std::byte> message, std::span<const int> fds = {});
  Status flush();
  bool has_queued() const { return !queue_.empty(); }
  // What to wait for until there is something to receive, or to flush.
  void watch(WaitSet& waits) const;

  // nullopt: nothing there yet. The peer's end of the connection is an error.
  Result<std::optional<ShmMessage>> receive();

  // The last word: any thread, does not wait, and nothing is queued. The peer reads it and then the end.
  void say_and_close(const ShmNote& note) noexcept;

 private:
  struct Queued {
    Blob bytes;
    std::array<Fd, kMostFds> fds;  // duplicates: the caller may close his
    size_t fd_count = 0;
  };
  // False when the socket is full.
  Result<bool> send_now(std::span<const std::byte> message, std::span<const int> fds);

  Fd socket_;
  std::deque<Queued> queue_;
};

}  // namespace tutti
