// What libibverbs has since rdma-core 34: the memory of other devices. A library of the tests does without.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "verbs/fake/fabric.h"

using namespace tutti::test;

extern "C" ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* domain, uint64_t offset, size_t size, uint64_t address, int fd,
                                     int access) {
  constexpr uint64_t kPage = 4096;
  std::lock_guard lock(fabric().mutex());
  errno = fabric().faults.dma_buf_error;
  if (errno != 0) return nullptr;
  struct stat file {};
  bool is_right = ::fstat(fd, &file) == 0 && offset + size <= static_cast<uint64_t>(file.st_size) &&
                  offset % kPage == address % kPage;  // a device's tables know whole pages
  if (!is_right) {
    fabric().mistake("a dma-buf that a device would refuse");
    errno = EINVAL;
    return nullptr;
  }
  uint64_t within = offset % kPage;
  void* pages = ::mmap(nullptr, within + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                       static_cast<off_t>(offset - within));
  if (pages == MAP_FAILED) return nullptr;
  ++fabric().counted.dma_bufs;
  if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0) {
    fabric().mistake("memory of a GPU is registered with relaxed ordering");
  }
  return fabric().add({.context = domain->context, .pd = domain, .addr = reinterpret_cast<void*>(address),
                       .length = size},
                      static_cast<std::byte*>(pages) + within, static_cast<unsigned>(access));
}
