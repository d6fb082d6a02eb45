// Sends frames on a socket without blocking. What the kernel does not take at once is kept: headers by value, payloads
// where they are. The number of kept frames is bounded, except for control frames, which are few.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "base/status.h"
#include "transports/tcp/frame.h"

namespace tutti {

class FrameSender {
 public:
  FrameSender();
  void attach(int socket) { socket_ = socket; }  // borrowed

  // kFull: nothing was taken. The payload must stay until puts_completed() has counted this put.
  Result<PutResult> put(const Frame& frame, std::span<const std::byte> payload);
  Result<PutResult> signal(const Frame& frame);
  // The same, but it waits for what is sent next, or for the second flush().
  Result<PutResult> signal_soon(const Frame& frame);
  // Is always taken; overtakes kept puts, but never splits one.
  Status control(const Frame& frame);
  // Says goodbye, as far as it can go at once. Payloads of puts that have not left stay behind: their memory may be
  // gone.
  void leave();
  // Sends kept frames as far as the kernel takes them; signals that may wait for the first time not.
  Status flush();

  bool has_kept() const { return count_ > 0 || !control_.empty(); }
  // Whether the kernel has not taken all that should have been sent at once.
  bool is_behind() const { return urgent_ > 0 || !control_.empty(); }
  uint64_t puts_completed() const { return puts_completed_; }

 private:
  static constexpr size_t kMostKept = 256;       // a power of two
  static constexpr size_t kMostKeptPuts = 64;    // so that signals still find room behind puts

  struct Kept {
    FrameHeader header;
    std::span<const std::byte> payload;
    uint64_t sent = 0;       // of header and payload together
    bool is_put = false;
    bool is_urgent = true;
    uint64_t size() const { return header.size() + payload.size(); }
  };

  Kept& at(size_t i) { return kept_[(first_ + i) % kMostKept]; }
  void keep(const Kept& kept);
  Result<PutResult> send_or_keep(const Kept& kept);
  Status flush_all();
  Status flush_kept();
  Status flush_control();
  // Bytes that the kernel took; 0 when the socket is full.
  Result<size_t> send(std::span<iovec> parts);

  int socket_ = -1;
  std::unique_ptr<Kept[]> kept_;   // a ring
  size_t first_ = 0;
  size_t count_ = 0;
  size_t kept_puts_ = 0;
  size_t urgent_ = 0;              // kept frames that do not wait by choice
  bool have_waited_ = false;       // the others, for one flush() at least
  std::deque<Kept> control_;
  uint64_t puts_completed_ = 0;
};

}  // namespace tutti
