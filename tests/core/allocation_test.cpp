// A call of a kind that was made before allocates nothing: not while it moves data, not while it waits.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <new>

#include "core/ranks.h"
#include "fmt/format.h"

namespace {

thread_local bool counts = false;
thread_local size_t allocations = 0;

void* allocate(size_t size, size_t alignment) {
  if (counts) ++allocations;
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
namespace {

std::string sum(tutti_comm_t* comm, void* values, size_t count, int times) {
  for (int i = 0; i < times; ++i) {
    if (tutti_all_reduce(values, values, count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr) != TUTTI_SUCCESS) {
      return tutti_last_error(comm);
    }
  }
  return "";
}

std::string count_allocations(tutti_comm_t* comm, void* values, size_t count) {
  constexpr int kToGrow = 20;  // lists that live on from call to call find their size
  constexpr int kCounted = 60;
  // On a loaded machine a call may be so slow that the awaited rank is asked what it is in, which allocates.
  constexpr size_t kSlowCalls = kCounted / 10;
  std::string wrong = sum(comm, values, count, kToGrow);
  allocations = 0;
  counts = true;
  if (wrong.empty()) wrong = sum(comm, values, count, kCounted);
  counts = false;
  if (!wrong.empty() || allocations <= kSlowCalls) return wrong;
  return fmt::format("{} allocations in {} calls of {} elements; ", allocations, kCounted, count);
}

// Ranks that only sleep take every way that a wait has.
const Options kWaits[] = {{}, {{"spin_us", "0"}, {"yield_us", "0"}}};

}  // namespace

TEST_CASE("a repeated call allocates nothing") {
  for (const char* transport : {"loopback", "shm", "tcp"}) {
    for (Options options : kWaits) {
      options["transport"] = transport;
      INFO(transport << (options.size() > 1 ? ", asleep" : ""));
      auto wrong = with_ranks(3, options, [](tutti_comm_t* comm, int) {
        constexpr size_t kMost = 300'000;
        std::vector<float> ordinary(kMost);
        void* shared = nullptr;
        if (tutti_mem_alloc(&shared, kMost * sizeof(float)) != TUTTI_SUCCESS) return std::string("no memory");
        std::string found;
        for (void* values : {static_cast<void*>(ordinary.data()), shared}) {
          for (size_t count : {size_t{2}, size_t{1000}, kMost}) found += count_allocations(comm, values, count);
        }
        tutti_mem_free(shared);
        return found;
      });
      for (const std::string& sentence : wrong) CHECK(sentence == "");
    }
  }
}

}  // namespace tutti::test
