// Communicators made of the ranks of others, and what many of them take.
#include <catch2/catch.hpp>

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/ranks.h"
#include "fmt/format.h"
#include "tests/discovery/scratch.h"
#include "tutti/tutti_topology.h"

namespace tutti::test {
namespace {

// "" when `comm` has that rank and size, and the sum of 1 on all of its ranks is the size.
std::string expect(tutti_comm_t* comm, int rank, int size) {
  int own = -1, all = -1;
  if (tutti_comm_rank(comm, &own) != TUTTI_SUCCESS || tutti_comm_size(comm, &all) != TUTTI_SUCCESS) return "no rank";
  if (own != rank || all != size) return fmt::format("rank {} of {} instead of {} of {}", own, all, rank, size);
  std::vector<int32_t> ones(5000, 1);
  if (tutti_all_reduce(ones.data(), ones.data(), ones.size(), TUTTI_INT32, TUTTI_SUM, comm, nullptr) != TUTTI_SUCCESS) {
    return tutti_last_error(comm);
  }
  for (int32_t sum : ones) {
    if (sum != size) return fmt::format("the sum is {} of {} ranks", sum, size);
  }
  return "";
}

size_t entries_of(const char* folder) {
  size_t entries = 0;
  DIR* open = ::opendir(folder);
  while (::readdir(open) != nullptr) ++entries;
  ::closedir(open);
  return entries;
}

uint64_t shared_and_private_pages() {
  unsigned long size = 0, resident = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  int read = std::fscanf(file, "%lu %lu", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident : 0;
}

}  // namespace

TEST_CASE("a tuning that was named is for all ranks, not for parts of them") {
  Scratch scratch;
  std::string file = scratch.path("tuning.json");
  check_all(with_ranks(4, {}, [&](tutti_comm_t* comm, int rank) -> std::string {
    const tutti_tuned_t line{TUTTI_BROADCAST, 1 << 20, "chain"};
    if (rank == 0 && tutti_comm_store_tuning(comm, &line, 1, file.c_str(), nullptr) != TUTTI_SUCCESS) {
      return tutti_last_error(nullptr);
    }
    return "";
  }));
  auto algorithm_of = [](tutti_comm_t* comm) -> std::string {
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.collective = TUTTI_BROADCAST;
    call.count = 1000;
    tutti_plan_info_t info{};
    info.struct_size = sizeof info;
    return tutti_comm_plan_info(comm, &call, &info) == TUTTI_SUCCESS ? info.algorithm : tutti_last_error(comm);
  };
  check_all(with_ranks(4, {{"tuning", file}}, [&](tutti_comm_t* comm, int rank) -> std::string {
    if (algorithm_of(comm) != "chain") return "all: " + algorithm_of(comm);
    tutti_comm_t* half = nullptr;
    tutti_comm_t* copy = nullptr;
    if (tutti_comm_split(comm, rank % 2, rank, &half, nullptr) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (tutti_comm_dup(comm, &copy, nullptr) != TUTTI_SUCCESS) return tutti_last_error(comm);
    std::string of_half = algorithm_of(half), of_copy = algorithm_of(copy);
    tutti_comm_destroy(copy);
    tutti_comm_destroy(half);
    return of_half != "chain" && of_copy == "chain" ? "" : fmt::format("half {}, copy {}", of_half, of_copy);
  }));
}

TEST_CASE("ranks are split by color and ordered by key, and those without a color get none") {
  for (const char* transport : {"", "tcp"}) {
    check_all(with_ranks(5, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) -> std::string {
      tutti_comm_t* half = nullptr;
      // Ranks 0, 2 are 1, 0 of color 0; ranks 1, 3 are 0, 1 of color 1; rank 4 is in none.
      if (tutti_comm_split(comm, rank == 4 ? -1 : rank % 2, rank % 2 == 0 ? -rank : rank, &half, nullptr) !=
          TUTTI_SUCCESS) {
        return tutti_last_error(comm);
      }
      if (rank == 4) return half == nullptr ? "" : "rank 4 has a communicator";
      std::string wrong = expect(half, rank == 0 || rank == 3 ? 1 : 0, 2);
      tutti_comm_destroy(half);
      return wrong;
    }));
  }
}

TEST_CASE("a duplicate outlives its parent, and both are used at once") {
  check_all(with_ranks(3, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    tutti_comm_t* first = nullptr;
    tutti_comm_t* second = nullptr;
    if (tutti_comm_dup(comm, &first, nullptr) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (tutti_comm_dup(first, &second, nullptr) != TUTTI_SUCCESS) return tutti_last_error(first);
    std::string wrong = expect(second, rank, 3) + expect(comm, rank, 3);
    std::string other;
    std::thread beside([&] { other = expect(first, rank, 3); });
    wrong += expect(second, rank, 3);
    beside.join();
    tutti_comm_destroy(first);
    wrong += other + expect(second, rank, 3);
    tutti_comm_destroy(second);
    return wrong;
  }));
}

TEST_CASE("a hundred communicators leave no descriptors, threads or memory behind", "[kernel]") {
  auto make_and_destroy = [](int times) {
    check_all(with_ranks(2, {}, [times](tutti_comm_t* comm, int rank) -> std::string {
      for (int i = 0; i < times; ++i) {
        tutti_comm_t* copy = nullptr;
        if (tutti_comm_dup(comm, &copy, nullptr) != TUTTI_SUCCESS) return tutti_last_error(comm);
        std::string wrong = expect(copy, rank, 2);
        if (tutti_comm_destroy(copy) != TUTTI_SUCCESS) wrong += "not destroyed";
        if (!wrong.empty()) return wrong;
      }
      return "";
    }));
  };
  make_and_destroy(3);
  size_t descriptors = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
  uint64_t pages = shared_and_private_pages();
  make_and_destroy(50);  // by two ranks each
  CHECK(entries_of("/proc/self/fd") <= descriptors);
  CHECK(entries_of("/proc/self/task") <= threads);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  constexpr uint64_t kFewPages = 4096;  // what allocators keep; one leaked arena of each would be more than that
  CHECK(shared_and_private_pages() <= pages + kFewPages);
#else
  (void)pages;
#endif
}

TEST_CASE("a communicator tells what it takes") {
  check_all(with_ranks(2, {{"transport", "tcp"}}, [](tutti_comm_t* comm, int rank) -> std::string {
    tutti_comm_memory_t memory{};
    memory.struct_size = sizeof memory;
    if (tutti_comm_memory(comm, &memory) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (memory.resident_bytes > 0 || memory.private_bytes > 0) return "takes memory before the first call";
    std::string wrong = expect(comm, rank, 2);
    if (tutti_comm_memory(comm, &memory) != TUTTI_SUCCESS) return tutti_last_error(comm);
    if (memory.resident_bytes == 0 || memory.resident_bytes > memory.reserved_bytes) wrong += "resident is wrong";
    if (memory.private_bytes > 0) wrong += "holds memory of a call that is over";
    memory.struct_size = 0;
    return tutti_comm_memory(comm, &memory) == TUTTI_INVALID_ARGUMENT ? wrong : "took no size";
  }));
}

TEST_CASE("a forked child cannot use its parent's communicators, but may make its own") {
  std::vector<tutti_comm_t*> comms = make_ranks(1, "shm");
  tutti_comm_t* comm = comms[0];
  float value = 1;
  pid_t child = ::fork();
  if (child == 0) {
    tutti_request_t* request = nullptr;
    bool refused =
        tutti_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr) == TUTTI_INVALID_USAGE &&
        std::string(tutti_last_error(nullptr)).find("is a child of the one that made") != std::string::npos &&
        start_all_reduce(&value, &value, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, &request) == TUTTI_INVALID_USAGE &&
        tutti_comm_destroy(comm) == TUTTI_INVALID_USAGE;
    bool works = true;
#if !defined(__SANITIZE_THREAD__)  // which ends a forked child that starts threads
    tutti_unique_id_t id;
    tutti_comm_t* own = nullptr;
    works = tutti_get_unique_id(&id) == TUTTI_SUCCESS && tutti_comm_init_rank(&own, 1, &id, 0) == TUTTI_SUCCESS &&
            expect(own, 0, 1).empty() && tutti_comm_destroy(own) == TUTTI_SUCCESS;
#endif
    ::_exit(!refused ? 1 : !works ? 2 : 0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(expect(comm, 0, 1) == "");
  destroy(comms);
}

TEST_CASE("a prepared call runs many times, beside calls that are made in other ways") {
  check_all(with_ranks(3, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    std::vector<int64_t> in(1000), out(1000);
    tutti_call_t call{};
    call.struct_size = sizeof call;
    call.datatype = TUTTI_INT64;
    call.send_buffer = in.data();
    call.recv_buffer = out.data();
    call.count = in.size();
    tutti_prepared_t* prepared = nullptr;
    if (rank != 2 && tutti_prepare(comm, &call, &prepared) != TUTTI_SUCCESS) return tutti_last_error(comm);
    for (int round = 0; round < 20; ++round) {
      std::fill(in.begin(), in.end(), round * (rank + 1));
      tutti_request_t* request = nullptr;
      tutti_request_t* again = nullptr;
      tutti_status_t status =
          prepared == nullptr
              ? tutti_all_reduce(in.data(), out.data(), in.size(), TUTTI_INT64, TUTTI_SUM, comm, nullptr)
              : tutti_start_prepared(prepared, &request);
      if (status != TUTTI_SUCCESS) return tutti_last_error(comm);
      if (prepared != nullptr) {
        if (tutti_start_prepared(prepared, &again) != TUTTI_INVALID_USAGE) return "started twice";
        if (tutti_prepared_destroy(prepared) != TUTTI_INVALID_USAGE) return "destroyed while it ran";
        if (tutti_wait(&request) != TUTTI_SUCCESS) return tutti_last_error(comm);
      }
      for (int64_t sum : out) {
        if (sum != round * 6) return fmt::format("round {} gives {}", round, sum);
      }
    }
    return tutti_prepared_destroy(prepared) == TUTTI_SUCCESS ? "" : "not destroyed";
  }));
}

}  // namespace tutti::test
