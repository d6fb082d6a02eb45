// Without memory a program still learns that a communicator has failed, and no exception comes through the C API.
#include <catch2/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <vector>

#include "core/allocations.h"
#include "core/ranks.h"
#include "tutti/tutti_nccl.h"

namespace tutti::test {
namespace {

constexpr size_t kAll = std::numeric_limits<size_t>::max();

struct OneRank {
  tutti_comm_t* comm = nullptr;
  OneRank() { REQUIRE(tutti_comm_init_rank(&comm, 1, nullptr, 0) == TUTTI_SUCCESS); }
  ~OneRank() { tutti_comm_destroy(comm); }
};

// Calls that refuse `comm`, each with a sentence that takes memory.
using Call = std::function<tutti_status_t(tutti_comm_t* comm)>;
std::vector<Call> calls_that_refuse() {
  static int number = 0;
  static uint64_t id = 0;
  return {[](tutti_comm_t* comm) { return tutti_comm_rank(comm, &number); },
          [](tutti_comm_t* comm) { return tutti_comm_size(comm, &number); },
          [](tutti_comm_t* comm) { return tutti_comm_id(comm, &id); },
          [](tutti_comm_t* comm) { return tutti_comm_status(comm); },
          [](tutti_comm_t* comm) { return tutti_comm_abort(comm); },
          [](tutti_comm_t* comm) { return tutti_comm_leave(comm); },
          [](tutti_comm_t* comm) { return tutti_comm_finalize(comm); },
          [](tutti_comm_t* comm) { return tutti_barrier(comm, nullptr); },
          [](tutti_comm_t* comm) {  // whose name takes memory, too
            return tutti_reduce_scatter(nullptr, nullptr, 0, TUTTI_FLOAT32, TUTTI_SUM, comm, nullptr);
          }};
}

bool is_system_error(const Call& call, tutti_comm_t* comm) {
  try {
    Refused refused(1);
    return call(comm) == TUTTI_SYSTEM_ERROR;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// How many of them were anything else when an allocation was refused.
int count_wrong(tutti_comm_t* comm) {
  int wrong = 0;
  for (const Call& call : calls_that_refuse()) wrong += is_system_error(call, comm) ? 0 : 1;
  return wrong;
}

}  // namespace

TEST_CASE("a communicator's status takes no memory") {
  OneRank one;
  REQUIRE(tutti_comm_abort(one.comm) == TUTTI_SUCCESS);
  tutti_status_t status = TUTTI_SUCCESS;
  {
    Refused refused(kAll);
    status = tutti_comm_status(one.comm);
  }
  CHECK(status == TUTTI_ABORTED);
}

TEST_CASE("without memory for the sentence tutti_last_error() says so, and later has it") {
  OneRank one;
  REQUIRE(tutti_comm_abort(one.comm) == TUTTI_SUCCESS);
  const char* sentence = nullptr;
  {
    Refused refused(kAll);
    sentence = tutti_last_error(one.comm);
  }
  CHECK(std::string(sentence) == "there is no memory for the sentence");
  CHECK(std::string(tutti_last_error(one.comm)) == "rank 0 aborted the communicator");
}

TEST_CASE("without memory for its sentence a refusal is a system error") {
  CHECK(count_wrong(nullptr) == 0);
  CHECK(std::string(tutti_last_error(nullptr)).find("out of memory") == 0);
  tutti_request_t* request = nullptr;
  CHECK(is_system_error([&](tutti_comm_t*) { return tutti_wait(&request); }, nullptr));
}

TEST_CASE("without memory for its sentence a refusal after a fork is a system error") {
  OneRank one;
  pid_t child = ::fork();
  if (child == 0) ::_exit(count_wrong(one.comm));
  int how = 0;
  REQUIRE(::waitpid(child, &how, 0) == child);
  REQUIRE(WIFEXITED(how));
  CHECK(WEXITSTATUS(how) == 0);
}

}  // namespace tutti::test
