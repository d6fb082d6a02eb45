// A call of a kind that was made before allocates nothing: not while it moves data, not while it waits.
#include <catch2/catch.hpp>

#include <functional>
#include <string>

#include "core/allocations.h"
#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

using Call = std::function<std::string(tutti_comm_t* comm, float* values, size_t count)>;

std::string sum(tutti_comm_t* comm, float* values, size_t count) {
  bool ok = tutti_all_reduce(values, values, count, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr) == TUTTI_SUCCESS;
  return ok ? "" : tutti_last_error(comm);
}

// A message that goes around all ranks.
std::string pass_on(tutti_comm_t* comm, float* values, size_t count) {
  int rank = 0, size = 0;
  tutti_comm_rank(comm, &rank);
  tutti_comm_size(comm, &size);
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  auto send = [&] { return tutti_send(values, count, TUTTI_FLOAT32, next, 0, comm, nullptr) == TUTTI_SUCCESS; };
  bool ok = rank != 0 || send();
  ok = ok && tutti_recv(values, count, TUTTI_FLOAT32, previous, 0, comm, nullptr, nullptr) == TUTTI_SUCCESS;
  ok = ok && (rank == 0 || send());
  return ok ? "" : tutti_last_error(comm);
}

std::string repeat(const Call& call, tutti_comm_t* comm, float* values, size_t count, int times) {
  std::string wrong;
  for (int i = 0; i < times && wrong.empty(); ++i) wrong = call(comm, values, count);
  return wrong;
}

std::string count_allocations(const Call& call, tutti_comm_t* comm, float* values, size_t count) {
  constexpr int kToGrow = 20;  // lists that live on from call to call find their size
  constexpr int kCounted = 60;
  // On a loaded machine a call may be so slow that the awaited rank is asked what it is in, which allocates.
  constexpr size_t kSlowCalls = kCounted / 10;
  std::string wrong = repeat(call, comm, values, count, kToGrow);
  if (!wrong.empty()) return wrong;
  Counted counted;
  wrong = repeat(call, comm, values, count, kCounted);
  size_t allocations = counted.count();
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
        for (float* values : {ordinary.data(), static_cast<float*>(shared)}) {
          for (size_t count : {size_t{2}, size_t{1000}, kMost}) {
            found += count_allocations(sum, comm, values, count);
            found += count_allocations(pass_on, comm, values, count);
          }
        }
        tutti_mem_free(shared);
        return found;
      });
      check_all(wrong);
    }
  }
}

}  // namespace tutti::test
