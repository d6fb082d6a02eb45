// Calls that are made in a group.
#include <catch2/catch.hpp>

#include <latch>

#include "core/ranks.h"
#include "fmt/format.h"

namespace tutti::test {
namespace {

std::string error_of(tutti_comm_t* comm) {
  std::string sentence = tutti_last_error(comm);
  return sentence.empty() ? tutti_last_error(nullptr) : sentence;
}

// Tensors of very different sizes, as the gradients of a model have; some are fused and some too large for it.
struct Tensors {
  std::vector<std::vector<int32_t>> values;

  Tensors(int rank, int number) {
    for (int i = 0; i < number; ++i) values.emplace_back(size_of(i), rank * 1000 + i);
  }
  static size_t size_of(int i) { return i % 17 == 16 ? 100'000 : i % 5 == 4 ? 0 : 1 + i * 37 % 3000; }

  std::string expect(int32_t factor, int32_t offset) const {
    for (size_t i = 0; i < values.size(); ++i) {
      for (int32_t value : values[i]) {
        if (value != offset + factor * static_cast<int32_t>(i)) return fmt::format("tensor {} has {}", i, value);
      }
    }
    return "";
  }
};

}  // namespace

TEST_CASE("a list of tensors is reduced as if one by one") {
  for (const char* transport : {"loopback", "shm", "tcp"}) {
    INFO(transport);
    check_all(with_ranks(3, {{"transport", transport}}, [](tutti_comm_t* comm, int rank) -> std::string {
      std::string wrong;
      for (int round = 0; round < 3; ++round) {
        Tensors tensors(rank, 200);
        tutti_group_begin();
        for (auto& tensor : tensors.values) {
          if (tutti_all_reduce(tensor.data(), tensor.data(), tensor.size(), TUTTI_INT32, TUTTI_SUM, comm, nullptr) !=
              TUTTI_SUCCESS) {
            return error_of(comm);
          }
        }
        if (tutti_group_end() != TUTTI_SUCCESS) return error_of(comm);
        wrong += tensors.expect(3, 3000);
      }
      return wrong;
    }));
  }
}

TEST_CASE("calls of many kinds and of two communicators start together, and separate buffers keep their inputs") {
  check_all(with_ranks(4, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    tutti_comm_t* other = nullptr;
    if (tutti_comm_dup(comm, &other, nullptr) != TUTTI_SUCCESS) return error_of(comm);
    std::vector<int64_t> in(10, rank + 1), sums(10), most(10), from_two(10, rank == 2 ? 7 : 0), to_one(10), all(40);
    std::vector<int64_t> more(10);
    tutti_group_begin();
    tutti_group_begin();
    tutti_all_reduce(in.data(), sums.data(), 10, TUTTI_INT64, TUTTI_SUM, comm, nullptr);
    tutti_broadcast(from_two.data(), from_two.data(), 10, TUTTI_INT64, 2, comm, nullptr);
    tutti_all_reduce(in.data(), more.data(), 10, TUTTI_INT64, TUTTI_SUM, other, nullptr);
    tutti_group_end();
    tutti_all_reduce(in.data(), most.data(), 10, TUTTI_INT64, TUTTI_MAX, comm, nullptr);
    tutti_reduce(in.data(), to_one.data(), 10, TUTTI_INT64, TUTTI_SUM, 1, comm, nullptr);
    tutti_all_gather(in.data(), all.data(), 10, TUTTI_INT64, comm, nullptr);
    tutti_reduce(in.data(), to_one.data(), 10, TUTTI_INT64, TUTTI_SUM, 1, comm, nullptr);
    tutti_broadcast(from_two.data(), from_two.data(), 10, TUTTI_INT64, 2, comm, nullptr);
    if (tutti_group_end() != TUTTI_SUCCESS) return error_of(comm);
    std::string wrong;
    bool right = in[9] == rank + 1 && sums[9] == 10 && more[9] == 10 && most[9] == 4 && all[25] == 3;
    if (!right) wrong = "a result is wrong";
    if (from_two[9] != 7 || to_one[9] != (rank == 1 ? 10 : 0)) wrong += "a result with a root is wrong";
    tutti_comm_destroy(other);
    return wrong;
  }));
}

TEST_CASE("what is wrong in a group is told when it is said, and at the end") {
  check_all(with_ranks(2, {}, [](tutti_comm_t* comm, int) -> std::string {
    int32_t value = 1;
    if (tutti_group_end() != TUTTI_INVALID_USAGE) return "ended no group";
    tutti_group_begin();
    tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr);
    if (tutti_all_reduce(nullptr, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr) != TUTTI_INVALID_ARGUMENT) {
      return "took NULL";
    }
    tutti_request_t* request = nullptr;
    if (start_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, &request) != TUTTI_INVALID_USAGE) {
      return "started a call in a group";
    }
    tutti_comm_t* copy = nullptr;
    if (tutti_comm_dup(comm, &copy, nullptr) != TUTTI_INVALID_USAGE) return "split in a group";
    if (tutti_group_end() != TUTTI_INVALID_ARGUMENT) return "the end forgot the error";
    if (value != 1) return "something was started";
    // The thread and the communicator go on.
    tutti_status_t status = tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr);
    if (status != TUTTI_SUCCESS) return error_of(comm);
    return value == 2 ? "" : "the sum is wrong";
  }));
}

TEST_CASE("groups that differ between ranks are told apart") {
  auto said = with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    int32_t values[3] = {1, 1, 1};
    tutti_group_begin();
    for (int i = 0; i < 2 + rank; ++i) {
      tutti_all_reduce(&values[i], &values[i], 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr);
    }
    return tutti_group_end() == TUTTI_INVALID_USAGE ? tutti_last_error(nullptr) : "no error";
  });
  for (const std::string& sentence : said) {
    CHECK_THAT(sentence, Catch::Matchers::Contains("all_reduce #1 of 2 int32") &&
                             Catch::Matchers::Contains("all_reduce #1 of 3 int32"));
  }
}

TEST_CASE("groups whose counts only add up alike are told apart") {
  auto said = with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    int32_t first[20] = {}, second[20] = {};
    tutti_group_begin();
    tutti_all_reduce(first, first, rank == 0 ? 10 : 20, TUTTI_INT32, TUTTI_SUM, comm, nullptr);
    tutti_all_reduce(second, second, rank == 0 ? 20 : 10, TUTTI_INT32, TUTTI_SUM, comm, nullptr);
    return tutti_group_end() == TUTTI_INVALID_USAGE ? tutti_last_error(nullptr) : "no error";
  });
  for (const std::string& sentence : said) {
    CHECK_THAT(sentence, Catch::Matchers::Contains("all_reduce #1 of 30 int32 in a group of 2"));
  }
}

TEST_CASE("a communicator that has failed keeps no other one of its group from its calls") {
  check_all(with_ranks(2, {}, [](tutti_comm_t* comm, int rank) -> std::string {
    tutti_comm_t* failed = nullptr;
    if (tutti_comm_dup(comm, &failed, nullptr) != TUTTI_SUCCESS) return error_of(comm);
    if (rank == 0) tutti_comm_abort(failed);
    while (tutti_comm_status(failed) == TUTTI_SUCCESS) std::this_thread::yield();
    int32_t lost = 1, kept = 1;
    tutti_comm_t* alive = comm;
    tutti_group_begin();
    tutti_all_reduce(&kept, &kept, 1, TUTTI_INT32, TUTTI_SUM, alive, nullptr);
    tutti_status_t refused = tutti_all_reduce(&lost, &lost, 1, TUTTI_INT32, TUTTI_SUM, failed, nullptr);
    tutti_status_t ended = tutti_group_end();
    std::string wrong = refused == TUTTI_ABORTED && ended == TUTTI_ABORTED ? "" : "the failure was not told";
    tutti_status_t next = tutti_all_reduce(&kept, &kept, 1, TUTTI_INT32, TUTTI_SUM, alive, nullptr);
    if (next != TUTTI_SUCCESS) wrong += error_of(alive);
    tutti_comm_destroy(failed);
    return wrong;
  }));
}

TEST_CASE("a communicator is not destroyed while an open group has calls of it") {
  check_all(with_ranks(2, {}, [](tutti_comm_t* comm, int) -> std::string {
    int32_t value = 1;
    tutti_group_begin();
    tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr);
    if (tutti_comm_finalize(comm) != TUTTI_INVALID_USAGE) return "finalized";
    if (tutti_comm_destroy(comm) != TUTTI_INVALID_USAGE) return "destroyed";
    return tutti_group_end() == TUTTI_SUCCESS && value == 2 ? "" : error_of(comm);
  }));
}

// Rank 1 makes its call of the first communicator before that fails, rank 0 afterwards.
TEST_CASE("a communicator that has failed keeps none of the others of a group from their calls") {
  std::latch called(1), failed(1);
  check_all(with_ranks(2, {}, [&](tutti_comm_t* comm, int rank) -> std::string {
    tutti_comm_t* first = nullptr;
    if (tutti_comm_dup(comm, &first, nullptr) != TUTTI_SUCCESS) return tutti_last_error(comm);
    int32_t lost = 1, sum = 1;
    tutti_group_begin();
    if (rank == 0) {
      called.wait();
      tutti_comm_abort(first);
      failed.count_down();
    }
    tutti_status_t made = tutti_all_reduce(&lost, &lost, 1, TUTTI_INT32, TUTTI_SUM, first, nullptr);
    tutti_all_reduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, nullptr);
    if (rank == 1) {
      called.count_down();
      failed.wait();
    }
    tutti_status_t ended = tutti_group_end();
    std::string wrong;
    if (made != (rank == 0 ? TUTTI_ABORTED : TUTTI_SUCCESS)) wrong += "the call was not as expected; ";
    if (ended != TUTTI_ABORTED) wrong += "the group's end tells nothing; ";
    if (sum != 2) wrong += fmt::format("the other call was not made: {}", tutti_last_error(comm));
    tutti_comm_destroy(first);
    return wrong;
  }));
}

}  // namespace tutti::test
