// A non-blocking stream of bytes between two processes: plain on a unix socket, TLS on TCP.
#pragma once

#include <memory>
#include <span>

#include "base/fd.h"
#include "base/status.h"
#include "bootstrap/wire.h"

namespace tutti::bootstrap {

// What one call moved. Neither `bytes` nor `closed`: nothing is possible right now.
struct Moved {
  size_t bytes = 0;
  bool closed = false;  // the peer will send nothing more
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Neither blocks nor raises SIGPIPE. An error is final.
  virtual Result<Moved> read(std::span<std::byte> into) = 0;
  virtual Result<Moved> write(ByteView from) = 0;
  // Tells the peer that nothing more will be written; reading goes on.
  virtual void close_writing() = 0;

  // From now on the end of the peer's process is an error, too, once all that it has sent is read: a child of it may
  // hold the connection open. Nothing changes where that process is this one, is on another host or cannot be seen.
  virtual void watch_process() {}
  // Readable once the process that is watched has ended; -1: none is.
  virtual int process_fd() const { return -1; }

  virtual int fd() const = 0;
  // True while the stream itself must write before it can go on (a TLS handshake).
  virtual bool wants_write() const { return false; }
  // The bytes are private and the peer has proven that it belongs to the job, or is the same user on this host.
  virtual bool authenticated() const = 0;
};

// Takes a connected, non-blocking unix socket. The peer must run as this process's user: anyone else is an error.
Result<std::unique_ptr<Stream>> make_unix_stream(Fd fd);

}  // namespace tutti::bootstrap
