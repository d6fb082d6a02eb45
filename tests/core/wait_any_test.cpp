// Waiting for several requests.
#include <catch2/catch.hpp>

#include "core/ranks.h"

namespace tutti::test {
TEST_CASE("requests of one communicator complete in the order of their calls") {
  check_all(with_ranks(3, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    constexpr size_t kCalls = 20;
    std::vector<int32_t> values(kCalls, rank);
    std::vector<tutti_request_t*> requests(kCalls);
    for (size_t i = 0; i < kCalls; ++i) {
      if (start_all_reduce(&values[i], &values[i], 1, TUTTI_INT32, TUTTI_SUM, comm, &requests[i]) != TUTTI_SUCCESS) {
        return tutti_last_error(comm);
      }
    }
    for (size_t i = 0; i < kCalls; ++i) {
      size_t index = 0;
      if (tutti_wait_any(kCalls, requests.data(), &index) != TUTTI_SUCCESS) return tutti_last_error(comm);
      if (index != i) return "call " + std::to_string(index) + " came before call " + std::to_string(i);
      if (requests[i] != nullptr || values[i] != 3) return "call " + std::to_string(i) + " is not done";
    }
    size_t index = 0;
    if (tutti_wait_any(kCalls, requests.data(), &index) != TUTTI_SUCCESS || index != kCalls) return "found one more";
    return tutti_wait_all(kCalls, requests.data()) == TUTTI_SUCCESS ? "" : tutti_last_error(comm);
  }));
}

TEST_CASE("the request that can complete is found among those of several communicators") {
  std::vector<tutti_comm_t*> late = make_ranks(2, "shm"), early = make_ranks(2, "shm");
  int32_t values[4] = {1, 1, 1, 1};
  tutti_request_t* requests[2] = {};
  REQUIRE(start_all_reduce(&values[0], &values[0], 1, TUTTI_INT32, TUTTI_SUM, late[0], &requests[0]) == TUTTI_SUCCESS);
  REQUIRE(start_all_reduce(&values[1], &values[1], 1, TUTTI_INT32, TUTTI_SUM, early[0], &requests[1]) == TUTTI_SUCCESS);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));  // so that the waiter goes to sleep
    tutti_all_reduce(&values[2], &values[2], 1, TUTTI_INT32, TUTTI_SUM, early[1], nullptr);
  });
  size_t index = 0;
  CHECK(tutti_wait_any(2, requests, &index) == TUTTI_SUCCESS);
  CHECK(index == 1);
  CHECK(values[1] == 2);
  other.join();
  std::thread last([&] { tutti_all_reduce(&values[3], &values[3], 1, TUTTI_INT32, TUTTI_SUM, late[1], nullptr); });
  CHECK(tutti_wait_all(2, requests) == TUTTI_SUCCESS);
  CHECK(values[0] == 2);
  last.join();
  destroy(late);
  destroy(early);
}

TEST_CASE("waiting for all takes all, and gives the first error") {
  auto said = with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    int32_t values[2] = {1, 1};
    tutti_request_t* requests[3] = {};
    start_all_reduce(&values[0], &values[0], 1, TUTTI_INT32, TUTTI_SUM, comm, &requests[0]);
    start_all_reduce(&values[1], &values[1], 1, TUTTI_INT32, rank == 0 ? TUTTI_SUM : TUTTI_MAX, comm, &requests[2]);
    if (tutti_wait_all(3, requests) != TUTTI_INVALID_USAGE) return "no error";
    return requests[0] == nullptr && requests[2] == nullptr ? tutti_last_error(comm) : "a request was left";
  });
  for (const std::string& sentence : said) CHECK_THAT(sentence, Catch::Matchers::Contains("all_reduce #2"));
}

TEST_CASE("what cannot be waited for is refused") {
  size_t index = 0;
  tutti_request_t* none[1] = {};
  CHECK(tutti_wait_any(1, nullptr, &index) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_wait_any(1, none, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_wait_all(1, nullptr) == TUTTI_INVALID_ARGUMENT);
  CHECK(tutti_wait_all(0, nullptr) == TUTTI_SUCCESS);
}

}  // namespace tutti::test
