#include "base/fd.h"

#include <fcntl.h>

#include <cerrno>

#include "base/memory.h"

namespace tutti {

void Mapping::unmap() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
  memory_ = {};
}

Result<Mapping> Mapping::create(int fd, size_t size_bytes) {
  if (size_bytes == 0) return Mapping();
  void* address = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) {
    return memory_error(errno, fmt::format("cannot map {} bytes of shared memory", size_bytes));
  }
  return Mapping({static_cast<std::byte*>(address), size_bytes});
}

Result<Fd> create_memfd(const char* name, size_t size_bytes) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return memory_error(errno, "cannot create shared memory (memfd_create)");
  if (::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    return memory_error(errno, fmt::format("cannot size shared memory to {} bytes", size_bytes));
  }
  // Whoever maps it relies on its size: a truncated file would end the process with SIGBUS.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return memory_error(errno, "cannot fix the size of shared memory (F_ADD_SEALS)");
  }
  return fd;
}

}  // namespace tutti
