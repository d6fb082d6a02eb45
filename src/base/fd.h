// Owners of kernel resources.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/status.h"

namespace tutti {

// Owns one file descriptor, or none (-1).
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

// Memory of a device, as a file by which the kernel lets other devices of this host reach it.
struct DmaBuf {
  Fd fd;
  uint64_t offset = 0;  // where in it the memory begins
};

// Owns one shared, readable and writable mapping of a file.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept : memory_(std::exchange(other.memory_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      unmap();
      memory_ = std::exchange(other.memory_, {});
    }
    return *this;
  }
  ~Mapping() { unmap(); }

  // Maps `size_bytes` of `fd`, shared, from `offset` on, which is one of a page.
  static Result<Mapping> create(int fd, size_t size_bytes, size_t offset = 0);
  // Private memory of no file.
  static Result<Mapping> create_private(size_t size_bytes);

  std::span<std::byte> bytes() const { return memory_; }
  // The caller unmaps it.
  std::span<std::byte> release() { return std::exchange(memory_, {}); }

 private:
  explicit Mapping(std::span<std::byte> memory) : memory_(memory) {}
  static Result<Mapping> map(size_t size_bytes, int flags, int fd, size_t offset);
  void unmap();

  std::span<std::byte> memory_;
};

// An anonymous shared-memory file of `size_bytes` zero bytes (memfd: nothing in /dev/shm), close-on-exec, sealed to its
// size. `name` shows in /proc/PID/maps.
Result<Fd> create_memfd(const char* name, size_t size_bytes);

}  // namespace tutti
