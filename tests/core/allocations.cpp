#include "core/allocations.h"

#include <cstdlib>
#include <new>

namespace {

thread_local bool counts = false;
thread_local size_t allocations = 0;
thread_local size_t to_refuse = 0;

void* allocate(size_t size, size_t alignment) {
  if (counts) ++allocations;
  if (to_refuse > 0) {
    --to_refuse;
    throw std::bad_alloc();
  }
  size_t rounded = (size + alignment - 1) / alignment * alignment;
  if (void* memory = std::aligned_alloc(alignment, rounded)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// The other forms of the standard library call these. Not inlined: gcc would take their malloc and free for a mismatch.
[[gnu::noinline]] void* operator new(size_t size) { return allocate(size, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace tutti::test {

Counted::Counted() {
  allocations = 0;
  counts = true;
}
Counted::~Counted() { counts = false; }
size_t Counted::count() const { return allocations; }

Refused::Refused(size_t count) { to_refuse = count; }
Refused::~Refused() { to_refuse = 0; }

}  // namespace tutti::test
