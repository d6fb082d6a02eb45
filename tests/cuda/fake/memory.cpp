#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "cuda/fake/fake.h"

namespace tutti::fake {

Memory& memory() {
  static auto* all = new Memory;
  return *all;
}

namespace {

// Memory of the file, as the device has it and as the host sees it: not at all, if it is a device's.
CUresult map(Kind kind, int fd, size_t size_bytes, void** contents, void** seen) {
  *contents = ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  *seen = *contents;
  if (kind == Kind::kDevice) *seen = ::mmap(nullptr, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return *contents == MAP_FAILED || *seen == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

}  // namespace

CUresult Memory::allocate(Kind kind, size_t size_bytes, CUcontext context, void** address) {
  if (size_bytes == 0 || address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // The most that the program wants one allocation to have.
  static const char* most = std::getenv("FAKE_CUDA_LARGEST");
  if (most != nullptr && size_bytes > std::strtoull(most, nullptr, 10)) return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = ::memfd_create("tutti-fake-cuda", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  void* contents = nullptr;
  void* seen = nullptr;
  if (CUresult wrong = map(kind, fd, size_bytes, &contents, &seen); wrong != CUDA_SUCCESS) return wrong;
  std::lock_guard lock(mutex_);
  allocations_[reinterpret_cast<uintptr_t>(seen)] = {.kind = kind,
                                                     .size_bytes = size_bytes,
                                                     .contents = static_cast<std::byte*>(contents),
                                                     .context = context,
                                                     .has_handle = kind == Kind::kDevice && gives_handles_,
                                                     .fd = fd,
                                                     .id = next_id_++};
  *address = seen;
  return CUDA_SUCCESS;
}

CUresult Memory::open(int64_t pid, int fd, size_t size_bytes, CUcontext context, void** address) {
  if (pid == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;  // a driver refuses that
  std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  void* contents = nullptr;
  void* seen = nullptr;
  CUresult wrong = map(Kind::kDevice, file, size_bytes, &contents, &seen);
  ::close(file);
  if (wrong != CUDA_SUCCESS) return wrong;
  std::lock_guard lock(mutex_);
  allocations_[reinterpret_cast<uintptr_t>(seen)] = {.size_bytes = size_bytes,
                                                     .contents = static_cast<std::byte*>(contents),
                                                     .context = context,
                                                     .is_opened = true,
                                                     .has_handle = false,
                                                     .id = next_id_++};
  *address = seen;
  return CUDA_SUCCESS;
}

CUresult Memory::close(void* address) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (found == allocations_.end() || !found->second.is_opened) return CUDA_ERROR_INVALID_VALUE;
  ::munmap(found->second.contents, found->second.size_bytes);
  ::munmap(address, found->second.size_bytes);
  allocations_.erase(found);
  return CUDA_SUCCESS;
}

CUresult Memory::free(void* address) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (found == allocations_.end() || found->second.is_registered || found->second.is_opened) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Allocation& allocation = found->second;
  ::close(allocation.fd);
  ::munmap(allocation.contents, allocation.size_bytes);
  if (allocation.contents != address) ::munmap(address, allocation.size_bytes);
  allocations_.erase(found);
  return CUDA_SUCCESS;
}

uintptr_t Memory::base_of(const void* address) const {
  std::lock_guard lock(mutex_);
  return std::prev(allocations_.upper_bound(reinterpret_cast<uintptr_t>(address)))->first;
}

CUresult Memory::add_registered(void* address, size_t size_bytes, CUcontext context) {
  auto begin = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  auto next = allocations_.lower_bound(begin);
  bool overlaps = next != allocations_.end() && next->first < begin + size_bytes;
  if (next != allocations_.begin()) {
    const auto& before = *std::prev(next);
    overlaps = overlaps || before.first + before.second.size_bytes > begin;
  }
  if (overlaps) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  allocations_[begin] = {.kind = Kind::kPinned,
                         .size_bytes = size_bytes,
                         .contents = static_cast<std::byte*>(address),
                         .context = context,
                         .is_registered = true,
                         .has_handle = false,
                         .id = next_id_++};
  return CUDA_SUCCESS;
}

CUresult Memory::remove_registered(void* address) {
  std::lock_guard lock(mutex_);
  auto found = allocations_.find(reinterpret_cast<uintptr_t>(address));
  if (found == allocations_.end() || !found->second.is_registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  allocations_.erase(found);
  return CUDA_SUCCESS;
}

bool Memory::find(const void* address, Allocation* found, std::byte** contents) const {
  auto at = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  auto next = allocations_.upper_bound(at);
  if (next == allocations_.begin()) return false;
  const auto& [begin, allocation] = *std::prev(next);
  if (at >= begin + allocation.size_bytes) return false;
  *found = allocation;
  *contents = allocation.contents + (at - begin);
  return true;
}

std::byte* Memory::contents_of(const void* address) const {
  Allocation allocation;
  std::byte* contents = nullptr;
  if (find(address, &allocation, &contents)) return contents;
  return static_cast<std::byte*>(const_cast<void*>(address));
}

}  // namespace tutti::fake
