#include "base/fd.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdint>

#include "base/arithmetic.h"
#include "base/memory.h"

namespace tutti {
namespace {

// The kernel puts mappings right below one another. Where large ones are as far apart as a multiple of 256 MiB, some
// processors seem to find only one of two equally far elements in their first cache (measured: a call of 1 MiB takes
// 1.4 times as long); so each leaves some addresses free behind it.
constexpr size_t kLarge = size_t{1} << 20;
constexpr size_t kApart = 17 * 4096;

}  // namespace

void Mapping::unmap() {
  if (!memory_.empty()) ::munmap(memory_.data(), memory_.size());
  memory_ = {};
}

Result<Mapping> Mapping::create(int fd, size_t size_bytes, size_t offset) {
  return map(size_bytes, MAP_SHARED, fd, offset);
}

Result<Mapping> Mapping::create_private(size_t size_bytes) {
  return map(size_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

Result<Mapping> Mapping::map(size_t size_bytes, int flags, int fd, size_t offset) {
  if (size_bytes == 0) return Mapping();
  bool is_large = size_bytes >= kLarge && size_bytes <= SIZE_MAX - kApart;
  size_t whole_bytes = is_large ? size_bytes + kApart : size_bytes;
  void* address = ::mmap(nullptr, whole_bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  if (address == MAP_FAILED) {
    std::string_view kind = fd < 0 ? "" : "shared ";
    return memory_error(errno, fmt::format("cannot map {} bytes of {}memory", size_bytes, kind));
  }
  auto* memory = static_cast<std::byte*>(address);
  if (is_large) {
    auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    size_t pages_bytes = ceil_div(size_bytes, page) * page;
    // Fails at most where the process has too many mappings, and then the addresses stay taken.
    if (whole_bytes > pages_bytes) (void)::munmap(memory + pages_bytes, whole_bytes - pages_bytes);
  }
  return Mapping({memory, size_bytes});
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
